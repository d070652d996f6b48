"""Kubeflow's own SDK (`pip install kubeflow`), with a queue of kai-ray.

    python examples/sdk/kubeflow_trainer.py

The runtime `torch-8gpu` is the one of examples/workloads/trainjob.yaml.
"""

from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from kubeflow_trainer_api import models

import kai_ray


def main() -> None:
    trainer = CustomTrainerContainer(image="pytorch/pytorch", num_nodes=2)
    name = TrainerClient().train(
        runtime="torch-8gpu",
        trainer=trainer,
        options=kai_ray.kubeflow.options(queue="vision", priority="train", min_workers=2),
    )
    with kai_ray.connect() as kai:
        # Or kai-ray takes an object of their API as it is.
        ours = models.TrainerV1alpha1TrainJob(
            api_version="trainer.kubeflow.org/v1alpha1",
            kind="TrainJob",
            metadata=models.IoK8sApimachineryPkgApisMetaV1ObjectMeta(name="ours"),
            spec=models.TrainerV1alpha1TrainJobSpec(
                runtime_ref=models.TrainerV1alpha1RuntimeRef(name="torch-8gpu")
            ),
        )
        jobs = [kai.job(f"trainjob/{name}"), kai.submit(ours, queue="vision", priority="train")]
        for job in kai.wait(jobs, timeout=600):
            print(f"{'ours' if job.name == 'ours' else 'theirs'}: {job.status} in {job.queue}")


if __name__ == "__main__":
    main()

"""Kubeflow's own SDK (`pip install kubeflow`), with a queue of kai-ray.

    python examples/sdk/kubeflow_trainer.py

The runtime `torch-8gpu` is the one of examples/workloads/trainjob.yaml.
"""

from kubeflow.trainer import CustomTrainerContainer, TrainerClient

import kai_ray


def main() -> None:
    trainer = CustomTrainerContainer(image="pytorch/pytorch", num_nodes=2)
    name = TrainerClient().train(
        runtime="torch-8gpu",
        trainer=trainer,
        options=kai_ray.kubeflow.options(queue="vision", priority="train", min_workers=2),
    )
    job = kai_ray.connect().job(f"trainjob/{name}").wait(timeout=600)
    print(f"{job.kind}: {job.status}")


if __name__ == "__main__":
    main()

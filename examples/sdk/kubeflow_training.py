"""The client of Kubeflow's training operator (`kubeflow-training`), with a queue of kai-ray.

python examples/sdk/kubeflow_training.py
"""

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes import client

import kai_ray

QUEUE = "vision"


def training(name: str, **metadata: dict) -> KubeflowOrgV1PyTorchJob:
    container = client.V1Container(
        name="pytorch",
        image="pytorch/pytorch",
        resources=client.V1ResourceRequirements(limits={"nvidia.com/gpu": "1"}),
    )
    pods = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container]))
    replicas = KubeflowOrgV1ReplicaSpec(replicas=2, template=pods, restart_policy="OnFailure")
    return KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=client.V1ObjectMeta(name=name, **metadata),
        spec=KubeflowOrgV1PyTorchJobSpec(
            run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
            pytorch_replica_specs={"Worker": replicas},
        ),
    )


def main() -> None:
    with kai_ray.connect() as kai:
        # Their client submits, with what kai-ray says should be on the job.
        theirs = training("theirs", **kai_ray.kubeflow.metadata(queue=QUEUE, min_workers=2))
        TrainingClient().create_job(theirs, namespace=kai.namespace)
        # Or kai-ray takes the object as it is.
        jobs = [kai.job("pytorchjob/theirs"), kai.submit(training("ours"), queue=QUEUE)]
        for job in kai.wait(jobs, timeout=600):
            print(f"{job.name}: {job.status} in queue {job.queue}")


if __name__ == "__main__":
    main()

"""JAXJob: workers that meet at worker 0; success when all have ended well."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .podset import add_env
from .training import Framework, Replicas, port_of, total
from .training_status import JobStatus

CONTAINER, PORT_NAME = "jax", "jaxjob-port"


def _configure(job: Object, replicas: Replicas, template: Object, kind: str, index: int) -> None:
    for container in template["spec"]["containers"]:
        add_env(
            container,
            ("PYTHONUNBUFFERED", "1"),
            ("COORDINATOR_PORT", str(port_of(replicas, "Worker", CONTAINER, PORT_NAME))),
            ("COORDINATOR_ADDRESS", f"{job['metadata']['name']}-worker-0"),
            ("NUM_PROCESSES", str(total(replicas))),
            ("PROCESS_ID", str(index)),
        )


def _judge(job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]) -> None:
    for kind, spec in replicas.items():
        active, succeeded, failed = status.counts(kind)
        if succeeded >= spec["replicas"]:
            status.succeeded()
        elif active:
            status.running()
        if failed and spec["replicas"] > succeeded + active and spec["restartPolicy"] == "Never":
            status.replicas_failed(kind, failed)


JAX = Framework(
    resource=R.JAX_JOB,
    specs="jaxReplicaSpecs",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=6666,
    order=("Worker",),
    restart_policy="Never",
    configure=_configure,
    is_master=lambda replicas, kind, index: index == 0,
    judge=_judge,
)

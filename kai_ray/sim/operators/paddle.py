"""PaddleJob: collective mode (workers only) or parameter-server mode (with masters)."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .podset import add_env, field_env
from .training import Framework, Replicas, port_of, total
from .training_status import JobStatus

CONTAINER, PORT_NAME = "paddle", "master"


def _configure(job: Object, replicas: Replicas, template: Object, kind: str, index: int) -> None:
    name = job["metadata"]["name"]
    lead = "Master" if "Master" in replicas else "Worker"
    port = port_of(replicas, lead, CONTAINER, PORT_NAME)
    first = index == 0 and (lead == "Worker" or kind == "master")
    for container in template["spec"]["containers"]:
        add_env(
            container,
            ("PYTHONUNBUFFERED", "1"),
            ("PADDLE_JOB_ID", name),
            ("PADDLE_NNODES", str(total(replicas))),
        )
        if first:
            container["env"].append(field_env("POD_IP_DUMMY", "status.podIP"))
            add_env(container, ("PADDLE_MASTER", f"$(POD_IP_DUMMY):{port}"))
        else:
            add_env(container, ("PADDLE_MASTER", f"{name}-{lead.lower()}-0:{port}"))
        if lead == "Master":
            role = "PADDLE_SERVER_NUM" if kind == "master" else "PADDLE_TRAINER_NUM"
            add_env(container, (role, "1"))


def _judge(job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]) -> None:
    lead = "Master" if "Master" in replicas else "Worker"
    for kind, spec in replicas.items():
        active, succeeded, failed = status.counts(kind)
        if kind == lead:
            if succeeded >= spec["replicas"]:
                status.succeeded()
                return
            if active:
                status.running()
        if failed and spec["replicas"] > succeeded + active and spec["restartPolicy"] == "Never":
            status.replicas_failed(kind, failed)


PADDLE = Framework(
    resource=R.PADDLE_JOB,
    specs="paddleReplicaSpecs",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=36543,
    order=("Master", "Worker"),
    restart_policy="OnFailure",
    configure=_configure,
    is_master=lambda replicas, kind, index: kind == "Master",
    judge=_judge,
)

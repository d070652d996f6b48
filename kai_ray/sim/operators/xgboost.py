"""XGBoostJob: rank and addresses of master and workers; success by the master."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .podset import add_env
from .training import Framework, Replicas, port_of, total
from .training_status import JobStatus

CONTAINER, PORT_NAME = "xgboost", "xgboostjob-port"


def _configure(job: Object, replicas: Replicas, template: Object, kind: str, index: int) -> None:
    name, size = job["metadata"]["name"], total(replicas)
    masters = replicas["Master"]["replicas"] if "Master" in replicas else 0
    lead = "Master" if "Master" in replicas else "Worker"
    rank = index + (masters if kind == "worker" else 0)
    for container in template["spec"]["containers"]:
        add_env(
            container,
            ("MASTER_PORT", str(port_of(replicas, lead, CONTAINER, PORT_NAME))),
            ("MASTER_ADDR", f"{name}-master-0"),
            ("WORLD_SIZE", str(size)),
            ("RANK", str(rank)),
            ("PYTHONUNBUFFERED", "1"),
        )
        if size > 1 and "Worker" in replicas:
            workers = ",".join(f"{name}-worker-{i}" for i in range(size - 1))
            port = port_of(replicas, "Worker", CONTAINER, PORT_NAME)
            add_env(container, ("WORKER_PORT", str(port)), ("WORKER_ADDRS", workers))


def _judge(job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]) -> None:
    for kind, spec in replicas.items():
        active, succeeded, failed = status.counts(kind)
        if kind == "Master":
            if active:
                status.running()
            if succeeded >= spec["replicas"]:
                status.succeeded()
                return
        if failed and spec["restartPolicy"] == "Never":
            status.replicas_failed(kind, failed)


XGBOOST = Framework(
    resource=R.XGBOOST_JOB,
    specs="xgbReplicaSpecs",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=9999,
    order=("Master", "Worker"),
    restart_policy="Never",
    configure=_configure,
    is_master=lambda replicas, kind, index: kind == "Master",
    judge=_judge,
)

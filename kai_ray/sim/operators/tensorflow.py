"""TFJob: TF_CONFIG, and success by chief, by worker 0 or by all workers."""

from __future__ import annotations

import json

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts

from .podset import add_env
from .training import Framework, Replicas, port_of, total
from .training_status import JobStatus

CONTAINER, PORT_NAME = "tensorflow", "tfjob-port"


def _configure(job: Object, replicas: Replicas, template: Object, kind: str, index: int) -> None:
    if total(replicas) <= 1:
        return
    cluster = {k.lower(): _addresses(job, replicas, k) for k in sorted(replicas)}
    config: Object = {"cluster": cluster, "task": {"type": kind, "index": index}}
    if job["spec"].get("enableDynamicWorker"):
        config["cluster"] = _sparse(cluster, kind, index)
    else:
        config["environment"] = "cloud"
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            add_env(container, ("TF_CONFIG", json.dumps(config, separators=(",", ":"))))
            return


def _addresses(job: Object, replicas: Replicas, kind: str) -> list[str]:
    meta = job["metadata"]
    port = port_of(replicas, kind, CONTAINER, PORT_NAME)
    return [
        f"{meta['name']}-{kind.lower()}-{i}.{meta['namespace']}.svc:{port}"
        for i in range(replicas[kind]["replicas"])
    ]


def _sparse(cluster: dict[str, list[str]], kind: str, index: int) -> Object:
    if kind == "ps":
        return {"worker": {}, "ps": [cluster["ps"][index]]}
    workers = {str(index): cluster[kind][index]} if kind == "worker" else {}
    return {"worker": workers, "ps": cluster.get("ps", []) if kind == "worker" else []}


def _lead(replicas: Replicas) -> str | None:
    return next((k for k in ("Chief", "Master") if k in replicas), None)


def _is_master(replicas: Replicas, kind: str, index: int) -> bool:
    if _lead(replicas):
        return kind in ("Chief", "Master")
    return kind == "Worker" and index == 0


def _judge(job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]) -> None:
    lead = _lead(replicas) or "Worker"
    first = f"{job['metadata']['name']}-worker-0"
    worker0 = any(
        p["metadata"]["name"] == first and pod_facts.phase(p) == "Succeeded" for p in pods
    )
    for kind, spec in replicas.items():
        active, succeeded, failed = status.counts(kind)
        if kind == lead:
            by_first = kind == "Worker" and worker0
            if succeeded >= spec["replicas"] or (
                by_first and job["spec"].get("successPolicy", "") != "AllWorkers"
            ):
                status.succeeded()
            elif active:
                status.running()
        if failed and not status.has("Restarting"):
            if job["spec"].get("enableDynamicWorker") and kind == "Worker":
                continue
            if spec["restartPolicy"] in ("Never", "ExitCode"):
                status.replicas_failed(kind, failed)


TENSORFLOW = Framework(
    resource=R.TF_JOB,
    specs="tfReplicaSpecs",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=2222,
    order=("Chief", "Evaluator", "Master", "PS", "Worker"),
    restart_policy="Never",
    configure=_configure,
    is_master=_is_master,
    judge=_judge,
)

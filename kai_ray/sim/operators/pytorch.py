"""PyTorchJob: rendezvous environment, elastic policy, workers that wait for the master."""

from __future__ import annotations

from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .podset import add_env
from .training import Framework, Replicas, port_of, total
from .training_status import JobStatus
from .world import own_copy

CONTAINER, PORT_NAME = "pytorch", "pytorchjob-port"
#: Own words for the operator's script: wait until the master's name resolves.
_WAIT = "for i in $(seq 100); do nslookup {0} && exit 0; sleep 2; done; exit 1"


def _configure(job: Object, replicas: Replicas, template: Object, kind: str, index: int) -> None:
    name, spec = job["metadata"]["name"], job["spec"]
    elastic = spec.get("elasticPolicy")
    per_node = spec.get("nprocPerNode")
    if per_node is None and not (elastic or {}).get("nProcPerNode"):
        per_node = "auto"
    for container in template["spec"]["containers"]:
        add_env(container, ("PYTHONUNBUFFERED", "1"))
        if "Master" in replicas:
            port = str(port_of(replicas, "Master", CONTAINER, PORT_NAME))
            rank = str(index + 1 if kind == "worker" else index)
            per_node_text = str(per_node)
            world = total(replicas) * (int(per_node_text) if per_node_text.isdigit() else 1)
            add_env(
                container,
                ("MASTER_PORT", port),
                ("PET_MASTER_PORT", port),
                ("MASTER_ADDR", f"{name}-master-0"),
                ("PET_MASTER_ADDR", f"{name}-master-0"),
                ("WORLD_SIZE", str(world)),
                ("RANK", rank),
                ("PET_NODE_RANK", rank),
            )
        if per_node is not None:
            add_env(container, ("PET_NPROC_PER_NODE", str(per_node)))
        if elastic is None:
            add_env(container, ("PET_NNODES", str(total(replicas))))
        else:
            add_env(container, *_elastic(job, replicas, elastic))
    if kind == "worker" and "Master" in replicas:
        wait = {
            "name": defaults.PYTORCH_INIT_CONTAINER,
            "image": "alpine:3.10",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", _WAIT.format(f"{name}-master-0")],
            "resources": own_copy(defaults.PYTORCH_INIT_RESOURCES),
        }
        template["spec"].setdefault("initContainers", []).append(wait)


def _elastic(job: Object, replicas: Replicas, policy: Object) -> list[tuple[str, str]]:
    workers = replicas["Worker"]["replicas"] if "Worker" in replicas else 0
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    low = high if low is None else low
    high = low if high is None else high
    host = policy.get("rdzvHost") or f"{job['metadata']['name']}-worker-0"
    port = policy.get("rdzvPort") or port_of(replicas, "Worker", CONTAINER, PORT_NAME)
    env = [
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", policy.get("rdzvBackend") or "c10d"),
        ("PET_NNODES", f"{workers if low is None else low}:{workers if high is None else high}"),
    ]
    for field, name in (
        ("maxRestarts", "PET_MAX_RESTARTS"),
        ("nProcPerNode", "PET_NPROC_PER_NODE"),
        ("rdzvId", "PET_RDZV_ID"),
    ):
        if policy.get(field) is not None:
            env.append((name, str(policy[field])))
    if policy.get("rdzvConf"):
        text = ",".join(f"{c['key']}={c['value']}" for c in policy["rdzvConf"])
        env.append(("PET_RDZV_CONF", text))
    if policy.get("standalone"):
        env.append(("PET_STANDALONE", ""))
    return env


def _is_master(replicas: Replicas, kind: str, index: int) -> bool:
    return kind == "Master" if "Master" in replicas else kind == "Worker" and index == 0


def _judge(job: Object, replicas: Replicas, status: JobStatus, pods: list[Object]) -> None:
    lead = "Master" if "Master" in replicas else "Worker"
    for kind, spec in replicas.items():
        active, succeeded, failed = status.counts(kind)
        if kind == lead:
            if active:
                status.running()
            elastic = lead == "Worker" and job["spec"].get("elasticPolicy") is not None
            if succeeded >= spec["replicas"] or (elastic and succeeded):
                status.succeeded()
                return
        if failed and spec["replicas"] > succeeded + active and spec["restartPolicy"] == "Never":
            status.replicas_failed(kind, failed)


PYTORCH = Framework(
    resource=R.PYTORCH_JOB,
    specs="pytorchReplicaSpecs",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=23456,
    order=("Master", "Worker"),
    restart_policy="OnFailure",
    configure=_configure,
    is_master=_is_master,
    judge=_judge,
)

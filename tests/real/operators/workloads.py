"""One small workload of every kind, as a user would write it: queue on top, GPUs in the workers.

`ours` puts our scheduler's name into the pod templates; without it admission or an operator's own
flag has to route the pods.
"""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object

QUEUE = "team-a"
IMAGE = "rayproject/ray:2.60.0"
RUN_FOR = "kwok.kai/run-for"


def container(name: str, gpus: float = 0, **fields: Any) -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "name": name,
        "image": IMAGE,
        "resources": {"limits": amounts, "requests": dict(amounts)},
        **fields,
    }


def pods(name: str, gpus: int = 0, *, ours: bool, run_for: str = "", **spec: Any) -> Object:
    """A pod template with one container."""
    template: Object = {"spec": {**spec, "containers": [container(name, gpus)]}}
    if ours:
        template["spec"]["schedulerName"] = L.SCHEDULER_NAME
    if run_for:
        template["metadata"] = {"annotations": {RUN_FOR: run_for}}
    return template


def workload(api_version: str, kind: str, name: str, spec: Object, **labels: str) -> Object:
    own = {L.QUEUE: QUEUE, **{k.replace("__", "/"): v for k, v in labels.items()}}
    meta = {"name": name, "labels": own}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


# Ray


def ray_spec(
    workers: int = 2, gpus: int = 1, *, ours: bool = False, hosts: int = 1, dashboard: int = 0
) -> Object:
    """A head and one group of `workers` replicas of `hosts` pods with `gpus` GPUs each."""
    head = pods("ray-head", ours=ours)
    params: dict[str, str] = {}
    if dashboard:
        head["spec"]["containers"][0]["ports"] = [
            {"containerPort": 6379, "name": "gcs-server"},
            {"containerPort": dashboard, "name": "dashboard"},
        ]
        params["dashboard-port"] = str(dashboard)
    group: Object = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": pods("ray-worker", gpus, ours=ours),
    }
    if hosts > 1:
        group["numOfHosts"] = hosts
    return {
        "rayVersion": IMAGE.partition(":")[2],
        "headGroupSpec": {"rayStartParams": params, "template": head},
        "workerGroupSpecs": [group],
    }


def ray_cluster(name: str, spec: Object) -> Object:
    return workload("ray.io/v1", "RayCluster", name, spec)


def autoscaled(spec: Object, least: int, most: int) -> Object:
    """The same cluster under Ray's autoscaler, which may have from `least` to `most` replicas."""
    group = {**spec["workerGroupSpecs"][0], "minReplicas": least, "maxReplicas": most}
    return {**spec, "enableInTreeAutoscaling": True, "workerGroupSpecs": [group]}


def ray_job(name: str, mode: str, spec: Object, *, entrypoint: str = "true", **more: Any) -> Object:
    body: Object = {"submissionMode": mode, "rayClusterSpec": spec}
    if mode != "InteractiveMode":
        body["entrypoint"] = entrypoint
    return workload("ray.io/v1", "RayJob", name, {**body, **more})


def ray_cron_job(name: str, schedule: str, job: Object) -> Object:
    spec = {"schedule": schedule, "jobTemplate": job["spec"]}
    return workload("ray.io/v1", "RayCronJob", name, spec)


def ray_service(name: str, spec: Object) -> Object:
    serve = (
        "applications: [{name: app, import_path: 'm:app', route_prefix: /,"
        " deployments: [{name: D, num_replicas: 1}]}]"
    )
    body = {"serveConfigV2": serve, "rayClusterConfig": spec}
    return workload("ray.io/v1", "RayService", name, body)


# Kubeflow's training operator: kind -> field of the replicas, name of the container

TRAINING = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "MPIJob": ("mpiReplicaSpecs", "mpi"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}


def training_job(
    kind: str,
    name: str,
    replicas: dict[str, int],
    *,
    gpus: int = 1,
    ours: bool = False,
    **more: Any,
) -> Object:
    field, main = TRAINING[kind]
    specs: Object = {}
    for role, count in replicas.items():
        template = pods(main, 0 if role in ("Launcher", "PS") else gpus, ours=ours, run_for="2s")
        if kind == "MPIJob" and role == "Worker":
            template.pop("metadata")  # it serves until the launcher has ended
        if kind == "MPIJob" and role == "Launcher":
            template["spec"]["containers"][0]["command"] = ["mpirun", "train"]
        specs[role] = {"replicas": count, "restartPolicy": "Never", "template": template}
    return workload("kubeflow.org/v1", kind, name, {field: specs, **more})


# Job sets, Trainer, leaders with workers, plain Jobs


def job(name: str, count: int, *, gpus: int = 1, ours: bool = False) -> Object:
    template = pods("main", gpus, ours=ours, run_for="2s", restartPolicy="Never")
    spec = {"parallelism": count, "completions": count, "template": template}
    made = workload("batch/v1", "Job", name, spec)
    made["metadata"]["annotations"] = {L.BATCH_MIN_MEMBER: str(count)}
    return made


def replicated_job(name: str, replicas: int, count: int, *, gpus: int = 1, ours: bool) -> Object:
    template = pods("main", gpus, ours=ours, run_for="2s", restartPolicy="Never")
    spec = {"parallelism": count, "completions": count, "template": template}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def job_set(name: str, *, gpus: int = 1, ours: bool = False) -> Object:
    """A leader and two jobs of two pods."""
    jobs = [
        replicated_job("leader", 1, 1, gpus=gpus, ours=ours),
        replicated_job("workers", 2, 2, gpus=gpus, ours=ours),
    ]
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": jobs})


def runtime(name: str, *, ours: bool = False) -> Object:
    template = pods("node", ours=ours, run_for="2s")
    template["spec"]["containers"][0].pop("resources")
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {
        "name": "node",
        "template": {"metadata": {"labels": step}, "spec": {"template": template}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    }


def train_job(name: str, runtime_name: str, nodes: int, *, gpus: int = 1, **labels: str) -> Object:
    amounts = {"nvidia.com/gpu": str(gpus)}
    spec = {
        "runtimeRef": {"name": runtime_name, "kind": "TrainingRuntime"},
        "trainer": {
            "numNodes": nodes,
            "image": "pytorch/pytorch",
            "command": ["torchrun", "train.py"],
            "resourcesPerNode": {"limits": amounts, "requests": amounts},
        },
    }
    return workload("trainer.kubeflow.org/v1alpha1", "TrainJob", name, spec, **labels)


def leader_worker_set(
    name: str, replicas: int, size: int, *, gpus: int = 1, ours: bool = False, **more: Any
) -> Object:
    """`replicas` groups of a leader and `size` - 1 workers."""
    leader = pods("leader", gpus, ours=ours)
    worker = pods("worker", gpus, ours=ours)
    body = {"size": size, "leaderTemplate": leader, "workerTemplate": worker}
    spec = {"replicas": replicas, "leaderWorkerTemplate": body, **more}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec)

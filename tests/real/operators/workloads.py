"""One small workload of every kind, as a user would write it: queue on top, GPUs in the workers."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object

QUEUE = "team-a"
IMAGE = "rayproject/ray:2.60.0"
#: Simulated kubelets end a pod after this annotation's time.
RUN_FOR = "kwok.kai/run-for"


@dataclass(frozen=True)
class Style:
    """How the pods of a workload are written.

    `ours`: their templates name our scheduler; without it admission or the operator routes them.
    `gpus` are each worker's; `place` goes into the spec of what asks for GPUs.
    """

    ours: bool = False
    gpus: int = 1
    place: Object = field(default_factory=dict)


def container(name: str, gpus: int) -> Object:
    amounts = {"cpu": "500m", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    resources = {"limits": amounts, "requests": dict(amounts)}
    return {"name": name, "image": IMAGE, "resources": resources}


def pods(name: str, style: Style, *, gpu: bool = True, run_for: str = "", **spec: Any) -> Object:
    """A pod template with one container."""
    place = style.place if gpu else {}
    ours = {"schedulerName": L.SCHEDULER_NAME} if style.ours else {}
    containers = [container(name, style.gpus if gpu else 0)]
    template: Object = {"spec": {**spec, **place, **ours, "containers": containers}}
    if run_for:
        template["metadata"] = {"annotations": {RUN_FOR: run_for}}
    return template


def workload(api_version: str, kind: str, name: str, spec: Object, **labels: str) -> Object:
    meta = {"name": name, "labels": {L.QUEUE: QUEUE, **labels}}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


# Ray


def ray_spec(style: Style, workers: int = 2, *, hosts: int = 1) -> Object:
    """A head and one group of `workers` replicas of `hosts` pods each."""
    group: Object = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": pods("ray-worker", style),
    }
    if hosts > 1:
        group["numOfHosts"] = hosts
    return {
        "rayVersion": IMAGE.partition(":")[2],
        "headGroupSpec": {"rayStartParams": {}, "template": pods("ray-head", style, gpu=False)},
        "workerGroupSpecs": [group],
    }


def autoscaled(spec: Object, least: int, most: int) -> Object:
    """The same cluster under Ray's autoscaler, which may have from `least` to `most` replicas."""
    group = {**spec["workerGroupSpecs"][0], "minReplicas": least, "maxReplicas": most}
    return {**spec, "enableInTreeAutoscaling": True, "workerGroupSpecs": [group]}


def with_dashboard(spec: Object, port: int) -> Object:
    """The same cluster, its head's dashboard on another port."""
    head = copy.deepcopy(spec["headGroupSpec"])
    head["rayStartParams"]["dashboard-port"] = str(port)
    ports = {"gcs-server": 6379, "dashboard": port, "client": 10001}
    head["template"]["spec"]["containers"][0]["ports"] = [
        {"name": name, "containerPort": number} for name, number in ports.items()
    ]
    return {**spec, "headGroupSpec": head}


def ray_cluster(name: str, spec: Object) -> Object:
    return workload("ray.io/v1", "RayCluster", name, spec)


def ray_job(name: str, mode: str, style: Style, **more: Any) -> Object:
    spec: Object = {"submissionMode": mode, "rayClusterSpec": ray_spec(style)}
    if mode != "InteractiveMode":
        spec["entrypoint"] = "python train.py"
    if mode == "K8sJobMode":
        spec["submitterPodTemplate"] = pods(
            "submit", style, gpu=False, run_for="1s", restartPolicy="Never"
        )
    return workload("ray.io/v1", "RayJob", name, {**spec, **more})


def ray_cron_job(name: str, style: Style, schedule: str = "@every 20s") -> Object:
    job = ray_job(name, "HTTPMode", style)
    spec = {"schedule": schedule, "jobTemplate": job["spec"]}
    return workload("ray.io/v1", "RayCronJob", name, spec)


def ray_service(name: str, style: Style) -> Object:
    serve = (
        "applications: [{name: app, import_path: 'm:app', route_prefix: /,"
        " deployments: [{name: D, num_replicas: 1}]}]"
    )
    spec = {"serveConfigV2": serve, "rayClusterConfig": ray_spec(style)}
    return workload("ray.io/v1", "RayService", name, {**spec, "rayClusterDeletionDelaySeconds": 1})


# Kubeflow's training operator: kind -> field of the replicas, name of the container

TRAINING = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "MPIJob": ("mpiReplicaSpecs", "mpi"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}
WITHOUT_GPUS = ("Launcher", "PS")


def training_job(
    kind: str, name: str, style: Style, replicas: dict[str, int], **more: Any
) -> Object:
    field_name, main = TRAINING[kind]
    specs: Object = {}
    for role, count in replicas.items():
        # MPI's workers serve until the launcher has ended.
        run_for = "" if (kind, role) == ("MPIJob", "Worker") else "2s"
        template = pods(main, style, gpu=role not in WITHOUT_GPUS, run_for=run_for)
        if role == "Launcher":
            template["spec"]["containers"][0]["command"] = ["mpirun", "train"]
        specs[role] = {"replicas": count, "restartPolicy": "Never", "template": template}
    return workload("kubeflow.org/v1", kind, name, {field_name: specs, **more})


def elastic_job(name: str, style: Style, least: int, most: int) -> Object:
    policy = {"minReplicas": least, "maxReplicas": most, "rdzvBackend": "c10d"}
    return training_job("PyTorchJob", name, style, {"Worker": most}, elasticPolicy=policy)


# Jobs, sets of jobs, Trainer, leaders with workers


def job(name: str, style: Style, count: int) -> Object:
    template = pods("main", style, run_for="2s", restartPolicy="Never")
    spec = {"parallelism": count, "completions": count, "template": template}
    made = workload("batch/v1", "Job", name, spec)
    made["metadata"]["annotations"] = {L.BATCH_MIN_MEMBER: str(count)}
    return made


def job_set(name: str, style: Style) -> Object:
    """A leader and two jobs of two pods."""

    def replicated(role: str, replicas: int, count: int) -> Object:
        template = pods("main", style, run_for="2s", restartPolicy="Never")
        spec = {"parallelism": count, "completions": count, "template": template}
        return {"name": role, "replicas": replicas, "template": {"spec": spec}}

    jobs = [replicated("leader", 1, 1), replicated("workers", 2, 2)]
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": jobs})


def train_job(name: str, style: Style, nodes: int, **labels: str) -> list[Object]:
    """A runtime of its own, and the TrainJob that uses it."""
    template = pods("node", style, run_for="2s")
    template["spec"]["containers"][0].pop("resources")
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {
        "name": "node",
        "template": {"metadata": {"labels": step}, "spec": {"template": template}},
    }
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    }
    amounts = {"nvidia.com/gpu": str(style.gpus)}
    spec = {
        "runtimeRef": {"name": name, "kind": "TrainingRuntime"},
        "trainer": {
            "numNodes": nodes,
            "image": "pytorch/pytorch",
            "command": ["torchrun", "train.py"],
            "resourcesPerNode": {"limits": amounts, "requests": amounts},
        },
    }
    made = workload("trainer.kubeflow.org/v1alpha1", "TrainJob", name, spec, **labels)
    return [runtime, made]


def leader_worker_set(name: str, style: Style, replicas: int, size: int, **more: Any) -> Object:
    """`replicas` groups of a leader and `size` - 1 workers."""
    body = {
        "size": size,
        "leaderTemplate": pods("leader", style),
        "workerTemplate": pods("worker", style),
    }
    spec = {"replicas": replicas, "leaderWorkerTemplate": body, **more}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec)

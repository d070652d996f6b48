"""Typed helpers for the common kinds: what a manifest of twenty lines says, in one call.

Each is a plain description with `manifest()`; `submit` takes it as it takes a dict or a file. For
what a helper has no field for, change the dict that `manifest()` gives.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object
from kai_ray.sdk.errors import InvalidManifest

Command = str | Sequence[str]

RAY_VERSION = "2.52.0"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")


@dataclass(frozen=True, kw_only=True)
class Pods:
    """What one pod of a job is and asks for. `gpus` whole cards, `cpus` cores, `memory` as "8Gi".

    >>> kai_ray.BatchJob("a", image="busybox", gpus=1, env={"SEED": "7"}).env
    {'SEED': '7'}
    """

    image: str
    gpus: int = 0
    cpus: float = 1
    memory: str = "2Gi"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])

    def container(self, name: str, command: Command = (), gpus: int | None = None) -> Object:
        """The container of a pod, as a manifest holds it.

        >>> job = kai_ray.BatchJob("a", image="busybox", command="echo hi")
        >>> job.container("main", job.command)["command"]
        ['echo', 'hi']
        """
        gpus = self.gpus if gpus is None else gpus
        amounts: Object = {"cpu": f"{self.cpus:g}", "memory": self.memory}
        made: Object = {"name": name, "image": self.image, "resources": {"requests": amounts}}
        if gpus:
            made["resources"]["limits"] = {L.NVIDIA_GPU: str(gpus)}
            amounts[L.NVIDIA_GPU] = str(gpus)
        words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
        if words:
            made["command"] = words
        if self.env:
            made["env"] = [{"name": k, "value": str(v)} for k, v in self.env.items()]
        return made

    def template(self, container: Object, **spec: Any) -> Object:
        """A pod template around one container.

        >>> job = kai_ray.BatchJob("a", image="busybox", node_selector={"zone": "b"})
        >>> job.template(job.container("main"))["spec"]["nodeSelector"]
        {'zone': 'b'}
        """
        made = {"containers": [container], **spec}
        if self.node_selector:
            made["nodeSelector"] = dict(self.node_selector)
        return {"spec": made}


@dataclass(frozen=True)
class BatchJob(Pods):
    """A plain Kubernetes Job: `pods` that start together, and `retries` of those that fail.

    `completions`: so many pods in all, `pods` of them side by side (default: as many as `pods`).

    >>> job = kai.submit(kai_ray.BatchJob("eval", image="python:3.12", gpus=1), queue="vision")
    >>> job.wait().status
    <Status.SUCCEEDED: 'Succeeded'>
    """

    name: str
    command: Command = field(default=(), kw_only=True)
    pods: int = field(default=1, kw_only=True)
    completions: int | None = field(default=None, kw_only=True)
    retries: int = field(default=0, kw_only=True)

    def manifest(self) -> Object:
        """The Job as a dict, free to be changed.

        >>> kai_ray.BatchJob("eval", image="busybox", pods=4).manifest()["spec"]["parallelism"]
        4
        """
        completions = self.pods if self.completions is None else self.completions
        _at_least(1, pods=self.pods, completions=completions)
        template = self.template(self.container("main", self.command), restartPolicy="Never")
        obj = _object("batch/v1", "Job", self.name)
        obj["spec"] = {
            "parallelism": self.pods,
            "completions": completions,
            "completionMode": "Indexed",
            "backoffLimit": self.retries,
            "template": template,
        }
        if self.pods > 1:
            obj["metadata"]["annotations"] = {L.BATCH_MIN_MEMBER: str(self.pods)}
        return obj


@dataclass(frozen=True)
class RayCluster(Pods):
    """A Ray cluster: a head without GPUs, and `workers` that ask for what the fields say.

    `autoscaling` lets Ray's own autoscaler choose the number between the bounds given to `submit`.

    >>> cluster = kai_ray.RayCluster("notebook", workers=2, gpus=4)
    >>> job = kai.submit(cluster, queue="vision")
    >>> job.wait().status  # it runs until it is deleted, so this waits for its start
    <Status.RUNNING: 'Running'>
    >>> job.delete()
    """

    name: str
    image: str = field(default=f"rayproject/ray:{RAY_VERSION}", kw_only=True)
    workers: int = field(default=1, kw_only=True)
    head_cpus: float = field(default=1, kw_only=True)
    head_memory: str = field(default="4Gi", kw_only=True)
    autoscaling: bool = field(default=False, kw_only=True)
    kind: ClassVar[str] = "RayCluster"

    def manifest(self) -> Object:
        """The RayCluster as a dict, free to be changed.

        >>> kai_ray.RayCluster("notebook", workers=3).manifest()["spec"]["workerGroupSpecs"][0][
        ...     "replicas"]
        3
        """
        return _object("ray.io/v1", "RayCluster", self.name) | {"spec": self.cluster_spec()}

    def cluster_spec(self) -> Object:
        """The spec of the cluster, which a RayJob holds too.

        >>> kai_ray.RayCluster("notebook", image="ray:2.60.0").cluster_spec()["rayVersion"]
        '2.60.0'
        """
        _at_least(0, workers=self.workers)
        head = self.container("ray-head", gpus=0)
        head["resources"]["requests"] |= {"cpu": f"{self.head_cpus:g}", "memory": self.head_memory}
        worker = self.container("ray-worker")
        for container in (head, worker):  # Ray sizes itself by its pod's limits
            amounts = container["resources"]
            amounts["limits"] = dict(amounts["requests"])
        spec: Object = {
            "headGroupSpec": {"rayStartParams": {}, "template": self.template(head)},
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": self.workers,
                    "minReplicas": self.workers,
                    "maxReplicas": self.workers,
                    "rayStartParams": {},
                    "template": self.template(worker),
                }
            ],
        }
        if version := re.search(r":(\d+\.\d+\.\d+)", self.image):
            spec["rayVersion"] = version[1]
        if self.autoscaling:
            spec["enableInTreeAutoscaling"] = True
        return spec


@dataclass(frozen=True)
class RayJob(RayCluster):
    """A script on a Ray cluster of its own, which goes when the script has ended.

    `runtime_env` as Ray takes it: a dict, for example with "pip" or "working_dir".

    >>> tune = kai_ray.RayJob("tune", "python tune.py", workers=2, gpus=1)
    >>> kai.submit(tune, queue="vision").wait().status
    <Status.SUCCEEDED: 'Succeeded'>
    """

    entrypoint: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    retries: int = field(default=0, kw_only=True)
    kind: ClassVar[str] = "RayJob"

    def manifest(self) -> Object:
        """The RayJob as a dict, free to be changed.

        >>> kai_ray.RayJob("tune", "python tune.py").manifest()["spec"]["entrypoint"]
        'python tune.py'
        """
        spec: Object = {
            "entrypoint": self.entrypoint,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": self.cluster_spec(),
        }
        if self.runtime_env:
            import yaml

            spec["runtimeEnvYAML"] = yaml.safe_dump(dict(self.runtime_env), sort_keys=False)
        if self.retries:
            spec["backoffLimit"] = self.retries
        return _object("ray.io/v1", "RayJob", self.name) | {"spec": spec}


@dataclass(frozen=True)
class PyTorchJob(Pods):
    """Training with PyTorch on `workers` pods, for Kubeflow's training operator.

    With `elastic` there is no Master, and torchrun goes on when workers come and go: then `submit`
    takes `min_workers` and `max_workers`.

    >>> job = kai_ray.PyTorchJob(
    ...     "resnet", image="pytorch", command="torchrun train.py", workers=2, gpus=8)
    >>> kai.submit(job, queue="vision").wait().status
    <Status.SUCCEEDED: 'Succeeded'>
    """

    name: str
    command: Command = field(default=(), kw_only=True)
    workers: int = field(default=1, kw_only=True)
    elastic: bool = field(default=False, kw_only=True)

    def manifest(self) -> Object:
        """The PyTorchJob as a dict, free to be changed.

        >>> job = kai_ray.PyTorchJob("resnet", image="pytorch", workers=3).manifest()
        >>> {role: part["replicas"] for role, part in job["spec"]["pytorchReplicaSpecs"].items()}
        {'Master': 1, 'Worker': 2}
        """
        _at_least(1, workers=self.workers)
        masters = 0 if self.elastic else 1
        counts = {"Master": masters, "Worker": self.workers - masters}
        spec: Object = {
            "pytorchReplicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": self.template(self.container("pytorch", self.command)),
                }
                for role, count in counts.items()
                if count
            }
        }
        if self.elastic:
            spec["elasticPolicy"] = {"minReplicas": self.workers, "maxReplicas": self.workers}
        return _object("kubeflow.org/v1", "PyTorchJob", self.name) | {"spec": spec}


@dataclass(frozen=True)
class TrainJob:
    """A job of Kubeflow Trainer on a runtime that the platform team wrote.

    What is left out is as the runtime says.

    >>> job = kai_ray.TrainJob("finetune", "torch-8gpu", nodes=2, command="torchrun finetune.py")
    >>> job.manifest()["spec"]["trainer"]
    {'numNodes': 2, 'command': ['torchrun', 'finetune.py']}
    """

    name: str
    runtime: str
    nodes: int | None = field(default=None, kw_only=True)
    image: str = field(default="", kw_only=True)
    command: Command = field(default=(), kw_only=True)
    gpus: int | None = field(default=None, kw_only=True)
    env: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    runtime_kind: str = field(default="ClusterTrainingRuntime", kw_only=True)

    def manifest(self) -> Object:
        """The TrainJob as a dict, free to be changed.

        >>> kai_ray.TrainJob("finetune", "torch-8gpu").manifest()["spec"]["runtimeRef"]["name"]
        'torch-8gpu'
        """
        trainer: Object = {}
        if self.nodes is not None:
            _at_least(1, nodes=self.nodes)
            trainer["numNodes"] = self.nodes
        if self.image:
            trainer["image"] = self.image
        if self.command:
            words = shlex.split(self.command) if isinstance(self.command, str) else self.command
            trainer["command"] = [str(w) for w in words]
        if self.env:
            trainer["env"] = [{"name": k, "value": str(v)} for k, v in self.env.items()]
        if self.gpus is not None:
            amounts = {L.NVIDIA_GPU: str(self.gpus)}
            trainer["resourcesPerNode"] = {"limits": amounts, "requests": dict(amounts)}
        reference = {
            "apiGroup": "trainer.kubeflow.org",
            "kind": self.runtime_kind,
            "name": self.runtime,
        }
        obj = _object("trainer.kubeflow.org/v1alpha1", "TrainJob", self.name)
        obj["spec"] = {"runtimeRef": reference} | ({"trainer": trainer} if trainer else {})
        return obj


def _object(api_version: str, kind: str, name: str) -> Object:
    if not _NAME.match(name) or len(name) > 253:
        raise InvalidManifest(
            f"{kind} name {name!r} can be no name in Kubernetes",
            why="lower-case letters, digits, - and .; a letter or digit first and last",
        )
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _at_least(least: int, **counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < least:
            raise InvalidManifest(f"{name}={value!r} is no whole number of {least} or more")

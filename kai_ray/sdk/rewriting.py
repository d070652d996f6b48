"""A manifest with a user's options written into it, each where its kind keeps it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object
from kai_ray.sdk import scheduling
from kai_ray.sdk.errors import InvalidManifest

RAY_SPECS = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
_GPUS = L.GPU_RESOURCES


class Template(NamedTuple):
    """A pod template inside a workload, and where it stands."""

    path: str
    object: Object


def with_options(manifest: Object, given: dict[str, Any]) -> Object:
    """A copy of a workload with checked options in it. Raises InvalidManifest."""
    if not given:
        return manifest
    obj = copy.deepcopy(manifest)
    try:
        _write(obj, given)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError) as error:
        raise InvalidManifest(
            f"{obj['kind']} {_name(obj)} is not shaped as its kind is",
            why=f"{type(error).__name__}: {error}",
            python="submit it without options to hear from the API server what is wrong",
        ) from error
    return obj


def _write(obj: Object, given: dict[str, Any]) -> None:
    meta = obj["metadata"]
    labels = scheduling.workload_labels(given)
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    notes = scheduling.workload_annotations(given)
    if "min_workers" in given or "max_workers" in given:
        notes |= _size(obj, given.get("min_workers"), given.get("max_workers"))
    if notes:
        meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    pod_notes = scheduling.pod_annotations(given)
    if pod_notes:
        _share(obj, pod_notes)


def pod_templates(obj: Object) -> Iterator[Template]:
    """The workload's pod templates, head before workers; a Pod is its own."""
    if obj["kind"] == "Pod":
        yield Template("", obj)
    else:
        yield from _templates(obj.get("spec"), "spec")


def _templates(here: Any, path: str) -> Iterator[Template]:
    if isinstance(here, list):
        for i, item in enumerate(here):
            yield from _templates(item, f"{path}[{i}]")
    elif isinstance(here, dict):
        spec = here.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield Template(path, here)
            return
        for key, value in here.items():
            yield from _templates(value, f"{path}.{key}")


def ray_spec(obj: Object) -> Object | None:
    """The spec of the Ray cluster that a workload makes, None for other kinds."""
    path = RAY_SPECS.get(obj["kind"])
    if path is None or not obj["apiVersion"].startswith("ray.io/"):
        return None
    here: Any = obj
    for step in path:
        here = here.get(step) or {}
    return here


# ------------------------------------------------------------------ parts of cards


def _share(obj: Object, notes: dict[str, str]) -> None:
    """Writes the part of a card on the pods that use GPUs, in place of one whole GPU."""
    templates = list(pod_templates(obj))
    chosen = [t for t in templates if _whole_gpus(t)] or _workers(obj, templates)
    if not chosen:
        raise InvalidManifest(
            f"{obj['kind']} {_name(obj)} has no pod template to write a part of a GPU on",
            why="its pods come from another object",
            python="put kai_ray.annotations(gpu_fraction=…) on the template there",
        )
    for template in chosen:
        asked = _whole_gpus(template)
        if asked > 1:
            raise InvalidManifest(
                f"{template.path or 'spec'} asks for {asked} GPUs and for a part of one",
                python="ask for 1 GPU or none in the manifest; gpu_devices=… for a part of several",
            )
        for container in _containers(template):
            for part in ("limits", "requests"):
                amounts = (container.get("resources") or {}).get(part) or {}
                for name in _GPUS:
                    amounts.pop(name, None)
        meta = template.object.setdefault("metadata", {})
        meta["annotations"] = {**(meta.get("annotations") or {}), **notes}


def _workers(obj: Object, templates: list[Template]) -> list[Template]:
    """Where no pod names a GPU: the workers of a Ray cluster, or the only template."""
    if ray_spec(obj) is not None:
        return [t for t in templates if "workerGroupSpecs" in t.path]
    if len(templates) > 1:
        places = ", ".join(t.path for t in templates)
        raise InvalidManifest(
            f"none of the templates of {obj['kind']} {_name(obj)} asks for a GPU",
            why=f"there are several: {places}",
            python="write nvidia.com/gpu: 1 on those that are to share one",
        )
    return templates


def _containers(template: Template) -> Iterator[Object]:
    spec = template.object["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        if isinstance(container, dict):
            yield container


def _whole_gpus(template: Template) -> int:
    total = 0
    for container in _containers(template):
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        try:
            total += sum(int(asked.get(name) or 0) for name in _GPUS)
        except (TypeError, ValueError) as error:
            raise InvalidManifest(f"{template.path}: GPUs are {asked}: {error}") from error
    return total


# ------------------------------------------------------------------ sizes


def _size(obj: Object, least: int | None, most: int | None) -> dict[str, str]:
    """Writes the bounds of the number of workers; the annotations of the workload for it."""
    if ray_spec(obj) is not None:
        return _ray_size(obj, least, most)
    if obj["kind"] == "Job" and obj["apiVersion"] == "batch/v1":
        notes = {L.BATCH_MIN_MEMBER: str(least)} if least else {}
        return notes | ({L.MAX_PARALLELISM: str(most)} if most else {})
    if most and obj["kind"] == "PyTorchJob":
        return _torch_size(obj, least, most)
    if most:
        raise InvalidManifest(
            f"a {obj['kind']} cannot grow",
            python="max_workers is for RayJob, RayCluster, PyTorchJob and Job",
        )
    return {L.MIN_MEMBER: str(least)}


def _ray_size(obj: Object, least: int | None, most: int | None) -> dict[str, str]:
    spec = ray_spec(obj) or {}
    groups = spec.get("workerGroupSpecs") or []
    if len(groups) != 1:
        raise InvalidManifest(
            f"{obj['kind']} {_name(obj)} has {len(groups)} worker groups",
            python="write minReplicas and maxReplicas of each group into the manifest",
        )
    (group,) = groups
    wish = group.get("replicas")
    if least:
        group["minReplicas"] = least
        group["replicas"] = wish = max(least, least if wish is None else wish)
    if most:
        group["maxReplicas"] = most
        if wish is not None and wish > most:
            raise InvalidManifest(f"replicas is {wish}, more than max_workers={most}")
    elif least and (group.get("maxReplicas") or 0) < group["replicas"]:
        group["maxReplicas"] = group["replicas"]
    if spec.get("enableInTreeAutoscaling"):
        return {}  # Ray's autoscaler keeps to these bounds, and the lower one is its gang
    hosts = group.get("numOfHosts") or 1
    notes = {L.MIN_MEMBER: str(1 + least * hosts)} if least else {}  # and the head
    return notes | ({L.ELASTIC: "true"} if most else {})


def _torch_size(obj: Object, least: int | None, most: int) -> dict[str, str]:
    replicas = (obj.get("spec") or {}).get("pytorchReplicaSpecs") or {}
    if "Master" in replicas or "Worker" not in replicas:
        raise InvalidManifest(
            f"PyTorchJob {_name(obj)} cannot grow while it has a Master",
            why="torchrun's elastic mode has only Workers",
            python="PyTorchJob(…, elastic=True), or leave max_workers away",
        )
    policy = obj["spec"].setdefault("elasticPolicy", {})
    wish = replicas["Worker"].get("replicas") or 1
    policy["minReplicas"] = least or min(wish, policy.get("minReplicas") or 1)
    policy["maxReplicas"] = most
    return {}


def _name(obj: Object) -> str:
    meta = obj.get("metadata") or {}
    return meta.get("name") or meta.get("generateName") or ""

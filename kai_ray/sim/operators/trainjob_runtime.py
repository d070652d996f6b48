"""From a training runtime and a TrainJob (Trainer v2.3) to the JobSet that runs it."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .jobset_jobs import with_defaults
from .podset import upsert_env
from .trainjob_policy import apply_policy
from .world import own_copy, owner_ref

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
TRAINER, NODE, LAUNCHER = "trainer", "node", "launcher"


def build_jobset(job: Object, runtime: Object) -> Object:
    """The JobSet of a TrainJob, complete with JobSet's own defaults."""
    template = own_copy(runtime["spec"]["template"])
    labels = dict((template.get("metadata") or {}).get("labels") or {})
    annotations = dict((template.get("metadata") or {}).get("annotations") or {})
    spec: Object = template["spec"]
    for patch in job["spec"].get("runtimePatches") or ():
        change = ((patch.get("trainingRuntimeSpec") or {}).get("template")) or {}
        labels |= (change.get("metadata") or {}).get("labels") or {}
        annotations |= (change.get("metadata") or {}).get("annotations") or {}
        spec = merge(spec, change.get("spec") or {})
    policy = runtime["spec"].get("mlPolicy") or {}
    for group in spec["replicatedJobs"]:
        _size(job, policy, group)
        _initializer(job, group)
    apply_policy(job, policy, spec)
    for group in spec["replicatedJobs"]:
        _trainer(job, policy, group)
    spec["suspend"] = bool(job["spec"].get("suspend"))
    meta: Object = {
        "name": job["metadata"]["name"],
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner_ref(R.TRAIN_JOB, job)],
    }
    if labels:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = annotations
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": with_defaults(spec),
    }


def merge(base: Any, change: Any) -> Any:
    """Strategic merge: maps by key, lists of named things by name, other lists replaced."""
    if isinstance(base, dict) and isinstance(change, dict):
        out = dict(base)
        for key, value in change.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = merge(out[key], value) if key in out else own_copy(value)
        return out
    if _named(base) and _named(change):
        out_list = [dict(item) for item in base]
        at = {item["name"]: i for i, item in enumerate(out_list)}
        for item in change:
            if item["name"] in at:
                i = at[item["name"]]
                out_list[i] = merge(out_list[i], item)
            else:
                out_list.append(own_copy(item))
        return out_list
    return own_copy(change)


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, dict) and "name" in i for i in value)


def step_of(group: Object) -> str:
    return ((group["template"].get("metadata") or {}).get("labels") or {}).get(STEP, "")


def runs_nodes(policy: Object, group: Object) -> bool:
    """Whether this group's `node` container is one of the trainer's nodes."""
    as_node = bool((policy.get("mpi") or {}).get("runLauncherAsNode"))
    return step_of(group) == TRAINER or (as_node and group["name"] == NODE)


def node_container(group: Object) -> Object | None:
    for container in group["template"]["spec"]["template"]["spec"]["containers"]:
        if container["name"] == NODE:
            return container
    return None


def _size(job: Object, policy: Object, group: Object) -> None:
    """Parallelism and completions, and the resources of each node."""
    trainer = job["spec"].get("trainer") or {}
    spec = group["template"].setdefault("spec", {})
    count = spec.get("parallelism") or 1
    mpi = policy.get("mpi")
    wanted = trainer.get("numNodes")
    if mpi is not None:
        if group["name"] == NODE and wanted is not None:
            count = max(wanted - 1, 1) if mpi.get("runLauncherAsNode") else wanted
    elif step_of(group) == TRAINER and policy:
        count = policy.get("numNodes") or 1
        if wanted is not None:
            count = wanted
    spec["parallelism"] = spec["completions"] = count
    if step_of(group):
        group["replicas"] = 1
    container = node_container(group)
    resources = trainer.get("resourcesPerNode")
    if container is not None and resources and runs_nodes(policy, group):
        old = container.get("resources") or {}
        container["resources"] = {
            kind: {**(old.get(kind) or {}), **(resources.get(kind) or {})}
            for kind in ("limits", "requests")
            if old.get(kind) or resources.get(kind)
        }


def _initializer(job: Object, group: Object) -> None:
    step = step_of(group)
    field = {"dataset-initializer": "dataset", "model-initializer": "model"}.get(step)
    if field is None:
        return
    group["replicas"] = 1
    given = (job["spec"].get("initializer") or {}).get(field)
    if not given:
        return
    for container in group["template"]["spec"]["template"]["spec"]["containers"]:
        if container["name"] != step:
            continue
        if given.get("storageUri"):
            upsert_env(container, {"name": "STORAGE_URI", "value": given["storageUri"]})
        upsert_env(container, *own_copy(given.get("env") or []))
        if given.get("secretRef"):
            source = {"secretRef": {"name": given["secretRef"]["name"]}}
            container.setdefault("envFrom", []).append(source)


def _trainer(job: Object, policy: Object, group: Object) -> None:
    """Image, command, arguments and environment that the TrainJob itself gives."""
    trainer = job["spec"].get("trainer") or {}
    container = node_container(group)
    if container is None or not trainer:
        return
    if step_of(group) == TRAINER and "flux" not in policy:
        for field in ("image", "command", "args"):
            if trainer.get(field):
                container[field] = own_copy(trainer[field])
    if runs_nodes(policy, group):
        upsert_env(container, *own_copy(trainer.get("env") or []))

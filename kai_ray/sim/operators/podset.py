"""Pods from templates, and counts over the pods of a workload."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts

from .world import is_deleting


def pod_of(
    template: Object,
    namespace: str,
    *,
    name: str = "",
    generate_name: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: Object | None = None,
    finalizers: list[str] | None = None,
) -> Object:
    """A pod of the template. The template's spec is shared, not copied: the store copies."""
    meta = template.get("metadata") or {}
    out: Object = {"namespace": namespace}
    if name:
        out["name"] = name
    else:
        out["generateName"] = generate_name
    all_labels = {**(meta.get("labels") or {}), **(labels or {})}
    all_annotations = {**(meta.get("annotations") or {}), **(annotations or {})}
    if all_labels:
        out["labels"] = all_labels
    if all_annotations:
        out["annotations"] = all_annotations
    if finalizers or meta.get("finalizers"):
        out["finalizers"] = [*(meta.get("finalizers") or ()), *(finalizers or ())]
    if owner is not None:
        out["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": out, "spec": template["spec"]}


def is_active(pod: Object) -> bool:
    """Neither finished nor on its way out."""
    return not pod_facts.is_finished(pod) and not is_deleting(pod)


def count(pods: Iterable[Object], phase: str) -> int:
    return sum(pod_facts.phase(p) == phase for p in pods)


def env_names(container: Object) -> set[str]:
    return {e["name"] for e in container.get("env") or ()}


def add_env(container: Object, *pairs: tuple[str, str]) -> None:
    """Appends variables with plain values."""
    env = container.setdefault("env", [])
    env.extend({"name": name, "value": value} for name, value in pairs)


def add_missing_env(container: Object, *pairs: tuple[str, str]) -> None:
    known = env_names(container)
    add_env(container, *(p for p in pairs if p[0] not in known))


def upsert_env(container: Object, *variables: Object) -> None:
    """Replaces variables of the same name in place, appends the others."""
    env = container.setdefault("env", [])
    at = {e["name"]: i for i, e in enumerate(env)}
    for variable in variables:
        if variable["name"] in at:
            env[at[variable["name"]]] = variable
        else:
            at[variable["name"]] = len(env)
            env.append(variable)


def field_env(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}

"""status, binding, eviction and scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import (
    ApiError,
    BadRequest,
    Conflict,
    Key,
    NotFound,
    Object,
    PatchType,
    TooManyRequests,
)
from kai_ray.cluster.selectors import parse_selector, selects

from . import meta, patching
from .copying import clone
from .kinds import Served

if TYPE_CHECKING:
    from .store import MemoryStore

_FINISHED = ("Succeeded", "Failed")


def separate(served: Served, old: Object, new: Object, subresource: str) -> Object:
    """Keeps the part of `new` that a write to this subresource may change."""
    if subresource == "":
        if served.status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        return new
    if subresource != "status" or not served.status:
        raise NotFound(
            f"the server could not find the requested resource: {served.resource.plural} have no "
            f"subresource {subresource!r}"
        )
    kept = {**old, "apiVersion": served.resource.api_version, "metadata": dict(old["metadata"])}
    if "status" in new:
        kept["status"] = new["status"]
    else:
        kept.pop("status", None)
    return kept


def with_condition(status: Object, condition: Object) -> Object:
    """A status whose condition of that type is replaced; the other parts are shared."""
    others = [c for c in status.get("conditions") or () if c.get("type") != condition["type"]]
    return {**status, "conditions": [*others, condition]}


class Meant(NamedTuple):
    """Which object a write is about, and in which state ("" = any)."""

    uid: str = ""
    version: str = ""


def bind(
    store: MemoryStore,
    namespace: str,
    name: str,
    node: str,
    meant: Meant,
    labels: dict[str, str] | None,
    annotations: dict[str, str] | None,
    dry_run: bool,
) -> None:
    served = store.kinds.find(r.POD)
    with store.lock:
        old = store.stored(served, name, namespace)
        meta.check_preconditions(served, old, meant.uid, meant.version)
        what = f'Operation cannot be fulfilled on pods/binding "{name}"'
        spec = old["spec"]
        if not node:
            raise meta.invalid(
                served, name, [meta.cause("target.name", "name the node", "FieldValueRequired")]
            )
        if "deletionTimestamp" in old["metadata"]:
            raise Conflict(f"{what}: pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise Conflict(f'{what}: pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise Conflict(f"{what}: pod {name} has non-empty .spec.schedulingGates")
        bad = list(meta.check_labels("metadata.labels", labels))
        if bad:
            raise meta.invalid(served, name, bad)
        metadata = dict(old["metadata"])
        for key, extra in (("labels", labels), ("annotations", annotations)):
            if extra:
                metadata[key] = {**(metadata.get(key) or {}), **extra}
        status = with_condition(
            old.get("status") or {},
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": store.now(),
                "observedGeneration": metadata.get("generation", 1),
            },
        )
        new = {**old, "metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}
        if not dry_run:
            store.commit(served, Key(namespace, name), "MODIFIED", old, new)


# --- eviction ----------------------------------------------------------------------------------


def evict(
    store: MemoryStore, namespace: str, name: str, uid: str, grace_s: int | None, dry_run: bool
) -> None:
    with store.lock:
        served = store.kinds.find(r.POD)
        pod = store.stored(served, name, namespace)
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if phase not in (*_FINISHED, "Pending") and "deletionTimestamp" not in pod["metadata"]:
            _check_budgets(store, namespace, pod)
        store.delete(r.POD, name, namespace, grace_s=grace_s, uid=uid, dry_run=dry_run)


def _check_budgets(store: MemoryStore, namespace: str, pod: Object) -> None:
    labels = pod["metadata"].get("labels")
    budgets = [
        b for b in store.list(r.PDB, namespace).items if selects(b["spec"].get("selector"), labels)
    ]
    if len(budgets) > 1:
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    for budget in budgets:
        rules = parse_selector(budget["spec"].get("selector"))
        members = [
            p
            for p in store.list(r.POD, namespace).items
            if all(rule.holds(p["metadata"].get("labels") or {}) for rule in rules)
            and (p.get("status") or {}).get("phase") not in _FINISHED
        ]
        healthy = sum(map(_is_healthy, members))
        needed = _needed(budget["spec"], _expected(store, members))
        if _is_healthy(pod) and healthy - 1 < needed:
            name = budget["metadata"]["name"]
            raise TooManyRequests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                details={
                    "causes": [
                        {
                            "reason": "DisruptionBudget",
                            "message": f"The disruption budget {name} needs {needed} healthy pods "
                            f"and has {healthy} currently",
                        }
                    ]
                },
            )


def _is_healthy(pod: Object) -> bool:
    conditions: Iterable[Object] = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in conditions
    )


def _expected(store: MemoryStore, members: list[Object]) -> int:
    """How many pods there should be: what their controllers ask for, else what there is."""
    wanted: dict[str, int] = {}
    for pod in members:
        refs = pod["metadata"].get("ownerReferences") or ()
        owner = next((ref for ref in refs if ref.get("controller")), None)
        found = store.state.find_uid(owner["uid"]) if owner else None
        obj = store.state.get(found) if found else None
        replicas = ((obj or {}).get("spec") or {}).get("replicas")
        if owner is not None and isinstance(replicas, int):
            wanted[owner["uid"]] = replicas
        else:
            wanted[pod["metadata"]["uid"]] = 1
    return sum(wanted.values())


def _needed(spec: Object, expected: int) -> int:
    """How many healthy pods a budget wants of `expected` ones; percentages round up."""
    if "maxUnavailable" in spec:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 0), expected)


def _share(value: int | str, of: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * of / 100)
    return int(value)


# --- scale -------------------------------------------------------------------------------------


def scale_of(served: Served, obj: Object) -> Object:
    """The autoscaling/v1 Scale of an object. Raises NotFound if its kind has none."""
    paths = served.scale
    if paths is None:
        raise NotFound(f"{served.resource.plural} have no subresource 'scale'")
    m = obj["metadata"]
    keep = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, paths.status) or 0}
    selector = _at(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        labels: dict[str, str] = selector.get("matchLabels") or {}
        status["selector"] = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
    elif isinstance(selector, str):
        status["selector"] = selector
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {k: m[k] for k in keep if k in m},
        "spec": {"replicas": _at(obj, paths.spec) or 0},
        "status": status,
    }


def set_scale(
    store: MemoryStore, served: Served, old: Object, scale: Object, dry_run: bool, manager: str
) -> Object:
    current = scale_of(served, old)
    meta.check_preconditions(
        served,
        old,
        scale.get("metadata", {}).get("uid", ""),
        scale.get("metadata", {}).get("resourceVersion", ""),
    )
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        raise meta.invalid(
            served,
            current["metadata"]["name"],
            [meta.cause("spec.replicas", f"Invalid value: {replicas!r}: must be 0 or more")],
        )
    assert served.scale is not None
    new = _put_at(old, served.scale.spec.split("."), replicas)
    new["apiVersion"] = served.resource.api_version
    return scale_of(served, store.replace(served, old, new, dry_run=dry_run, manager=manager))


def patch_scale(
    store: MemoryStore,
    served: Served,
    old: Object,
    patch: Any,
    patch_type: PatchType,
    dry_run: bool,
    manager: str,
) -> Object:
    if patch_type == "apply":
        raise BadRequest("server-side apply on scale is not served: use a merge patch")
    scale = patching.patched(served, scale_of(served, old), patch, patch_type)
    return set_scale(store, served, old, clone(scale), dry_run, manager)


def _at(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _put_at(obj: Object, path: list[str], value: Any) -> Object:
    head, *rest = path
    inner = obj.get(head)
    return {
        **obj,
        head: _put_at(inner if isinstance(inner, dict) else {}, rest, value) if rest else value,
    }

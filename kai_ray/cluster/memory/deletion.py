"""Deletion: grace for pods, finalizers, namespaces that empty first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Key, Object

from .kinds import Served

if TYPE_CHECKING:
    from .store import MemoryStore

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_PODS = ("", "pods")
_NAMESPACES = ("", "namespaces")


def is_done(obj: Object) -> bool:
    """Whether a marked object may go: no finalizers, no grace left, no contents to wait for."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


def grace_of(served: Served, obj: Object, wanted_s: int | None) -> int:
    """Seconds between the mark and the end. Only pods that a kubelet may be running have any."""
    if served.group_plural != _PODS:
        return 0
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if wanted_s is None:
        wanted_s = spec.get("terminationGracePeriodSeconds", 30)
    return max(0, int(wanted_s or 0))


def delete(
    store: MemoryStore,
    served: Served,
    old: Object,
    grace_s: int | None,
    propagation: Literal["Background", "Foreground", "Orphan"],
) -> Object:
    """Removes the object or marks it; returns its last state."""
    meta = dict(old["metadata"])
    finalizers: list[str] = list(meta.get("finalizers") or ())
    if "deletionTimestamp" not in meta:
        if propagation == "Foreground" and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
        if propagation == "Orphan" and ORPHAN not in finalizers:
            finalizers.append(ORPHAN)
        if finalizers:
            meta["finalizers"] = finalizers
    grace = grace_of(served, old, grace_s)
    before = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in meta or (before and grace < before):
        meta["deletionTimestamp"] = rfc3339(store.clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta and "deletionTimestamp" not in old["metadata"]:
            meta["generation"] += 1
    new = {**old, "metadata": meta}
    if served.group_plural == _NAMESPACES:
        return _delete_namespace(store, served, old, new)
    return put(store, served, old, new)


def put(store: MemoryStore, served: Served, old: Object, new: Object) -> Object:
    """Commits `new`, as a removal if nothing holds it any more."""
    if new == old:
        return old
    key = Key(new["metadata"].get("namespace", ""), new["metadata"]["name"])
    return store.commit(served, key, "DELETED" if is_done(new) else "MODIFIED", old, new)


def drop_finalizer(store: MemoryStore, served: Served, obj: Object, name: str) -> Object:
    meta = dict(obj["metadata"])
    rest = [f for f in meta.get("finalizers") or () if f != name]
    if rest:
        meta["finalizers"] = rest
    else:
        meta.pop("finalizers", None)
    return put(store, served, obj, {**obj, "metadata": meta})


def _delete_namespace(store: MemoryStore, served: Served, old: Object, new: Object) -> Object:
    new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
    new = put(store, served, old, new)
    name = new["metadata"]["name"]
    for (group, plural), table in store.state.tables():
        versions = store.kinds.by_plural(group, plural)
        if not versions:
            continue
        content = next(iter(versions.values()))
        for key in table.keys(name) if content.resource.namespaced else ():
            obj = table.objects.get(key)
            if obj is not None:
                delete(store, content, obj, None, "Background")
    emptied(store, name)
    return new


def emptied(store: MemoryStore, namespace: str) -> None:
    """Lets a terminating namespace go once nothing is left in it."""
    obj = store.state.get((_NAMESPACES, Key("", namespace)))
    if obj is None or "deletionTimestamp" not in obj["metadata"]:
        return
    if store.state.population(namespace) or not (obj.get("spec") or {}).get("finalizers"):
        return
    served = store.kinds.find(r.NAMESPACE)
    spec = {**obj["spec"], "finalizers": []}
    put(store, served, obj, {**obj, "spec": spec})


def namespace_changed(store: MemoryStore, kind: str, new: Object) -> None:
    """A new namespace gets its service account and the map with the root certificate."""
    if kind != "ADDED":
        return
    name = new["metadata"]["name"]
    for resource, content in (
        (r.SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": name}}),
        (
            r.CONFIG_MAP,
            {"metadata": {"name": "kube-root-ca.crt", "namespace": name}, "data": {"ca.crt": ""}},
        ),
    ):
        store.create_own(store.kinds.find(resource), content)

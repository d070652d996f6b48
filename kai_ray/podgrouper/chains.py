"""From a pod up its owners, and the rule at the top: resolved once per workload, not per pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kai_ray.api import labels as keys

from .cluster_reader import ClusterReader
from .groups import Group
from .registry import is_workload, resolve
from .values import (
    GroupError,
    Object,
    annotations_of,
    labels,
    name_of,
    owner_references,
    uid_of,
)
from .workload import Rule, Settings, Workload

#: Owner chains longer than this go in circles.
LONGEST_CHAIN = 16


def owner_reference_of(obj: Object) -> Object | None:
    """The reference to follow: the controller's, else the only one. Several are refused."""
    found = owner_references(obj)
    controllers = [r for r in found if r.get("controller")]
    if len(found) > 1 and len(controllers) != 1:
        raise GroupError(
            "metadata.ownerReferences",
            f"names {len(found)} owners and no single controller",
            "mark one as controller: true",
            reason="AmbiguousOwner",
        )
    return (controllers or found or [None])[0]


def chain_above(reader: ClusterReader, obj: Object, namespace: str) -> tuple[Object, ...]:
    """The owners of `obj`, nearest first. An owner whose kind cannot be read ends the chain.

    Raises GroupError where an owner is gone, was replaced, or the chain goes in circles.
    """
    found: list[Object] = []
    seen = {uid_of(obj)} - {""}
    here = obj
    while (reference := owner_reference_of(here)) is not None:
        uid = str(reference.get("uid") or "")
        if uid in seen or len(found) >= LONGEST_CHAIN:
            raise GroupError(
                "metadata.ownerReferences",
                f"go in a circle at {reference.get('kind')} {reference.get('name')}",
                "break the circle",
                reason="OwnerCycle",
            )
        seen |= {uid} - {""}
        owner = _read(reader, reference, namespace)
        found.append(owner)
        if "metadata" not in owner or owner.get("_stub"):
            break
        here = owner
    return tuple(found)


def _read(reader: ClusterReader, reference: Object, namespace: str) -> Object:
    version = str(reference.get("apiVersion") or "")
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    uid = str(reference.get("uid") or "")
    found = reader.owner(version, kind, name, namespace)
    resource = reader.resource(version, kind)
    if found is None and (resource is None or not reader.cached(resource)):
        return _stub(
            reference, namespace
        )  # a kind that is not ours to read: its name is all we know
    if found is None or (uid and uid_of(found) and uid_of(found) != uid):
        raise GroupError(
            "metadata.ownerReferences",
            f"{kind} {name} " + ("does not exist" if found is None else "is not the one meant"),
            "delete what it left behind, or create it again",
            reason="OwnerNotFound",
        )
    if not found.get("kind"):
        return {**found, "apiVersion": version, "kind": kind}
    return found


def _stub(reference: Object, namespace: str) -> Object:
    meta = {"name": reference.get("name"), "namespace": namespace, "uid": reference.get("uid")}
    return {
        "apiVersion": reference.get("apiVersion"),
        "kind": reference.get("kind"),
        "metadata": meta,
        "_stub": True,
    }


def is_skipped(obj: Object | None) -> bool:
    """Whether the user asked us to leave this object's pods alone."""
    return annotations_of(obj).get(keys.SKIP_PODGROUPER) == "true" or (
        (obj or {}).get("kind") == "Namespace" and labels(obj).get(keys.SKIP_PODGROUPER) == "true"
    )


@dataclass(frozen=True, slots=True)
class Resolved:
    """A workload ready to place pods. `uids`: all objects that it was derived from.

    `error`: why there are no groups. `skipped`: nobody wants any.
    """

    rule: Rule
    workload: Workload
    groups: Sequence[Group] = ()
    uids: frozenset[str] = frozenset()
    error: GroupError | None = None
    skipped: bool = False

    def for_pod(self, pod: Object) -> tuple[Workload, Sequence[Group]]:
        """The workload as `pod` sees it, and its groups. Raises GroupError."""
        if self.error is not None:
            raise self.error
        if not self.rule.per_pod:
            return self.workload, self.groups
        whole = self.workload
        rule, w = resolve(replace(whole, subject=whole.top, pod=pod))
        return w, rule.groups(w)


def resolve_chain(
    reader: ClusterReader,
    settings: Settings,
    owners: tuple[Object, ...],
    pod: Object | None = None,
) -> Resolved:
    """The rule and groups of a chain of owners (nearest first, not empty)."""
    w = Workload(owners[-1], owners, pod, reader, settings)
    uids = frozenset(uid_of(o) for o in owners) - {""}
    rule, w = resolve(w)
    namespace = reader.get("v1", "Namespace", w.namespace)
    if any(is_skipped(o) for o in (*owners, namespace)):
        return Resolved(rule, w, uids=uids, skipped=True)
    if rule.per_pod:
        return Resolved(rule, replace(w, pod=None), uids=uids)
    try:
        subject = rule.defaults(w.subject) if rule.defaults else w.subject
        about = replace(w, subject=subject, pod=None if is_workload(subject) else pod)
        return Resolved(rule, about, rule.groups(about), uids | _related(about))
    except GroupError as error:
        return Resolved(rule, w, uids=uids, error=error)


def _related(w: Workload) -> frozenset[str]:
    """UIDs of what lies below the subject and was read: the clusters of a Ray job or service."""
    reader: Any = w.reader
    children = reader.owned_by(uid_of(w.subject), pods=False) if uid_of(w.subject) else []
    return frozenset(uid_of(c) for c in children) - {""}


def called(obj: Object) -> str:
    return f"{obj.get('kind') or 'object'} {name_of(obj)}"

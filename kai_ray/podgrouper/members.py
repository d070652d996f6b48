"""Where a pod belongs: asked at admission for pods that are being made, and for pods that exist."""

from __future__ import annotations

import threading
from typing import NamedTuple

from kai_ray.api import labels as keys
from kai_ray.cluster.port import Port
from kai_ray.encode.settings import Membership

from .chains import Resolved, chain_above, is_skipped, owner_reference_of, resolve_chain
from .cluster_reader import ClusterReader
from .groups import Group
from .registry import resolve
from .values import GroupError, Object, annotations_of, labels, namespace_of, uid_of
from .workload import Place, Settings, Workload


class Bare(NamedTuple):
    """What was derived from a pod without an owner; `words`: its labels and annotations then."""

    words: tuple[Object, Object]
    place: Membership
    groups: tuple[Group, ...]


class Members:
    """The index from pods to groups: owners are looked up once per workload.

    `of` never raises and may be called from any thread.
    """

    def __init__(self, reader: ClusterReader, settings: Settings) -> None:
        self.reader = reader
        self.settings = settings
        self._known: dict[str, Resolved] = {}
        self._depend: dict[str, set[str]] = {}
        self._bare_known: dict[str, Bare] = {}
        self._seats: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.Lock()

    @classmethod
    def over(cls, port: Port, settings: Settings | None = None) -> Members:
        """An index that reads from a port alone. What it read it keeps: `forget_all` drops it."""
        return cls(ClusterReader(port), settings or Settings())

    def of(self, pod: Object) -> Membership | None:
        """The pod's group and leaf ("" where the group has no tree), None where there is none."""
        try:
            return self.must(pod)
        except GroupError:
            return None

    def must(self, pod: Object) -> Membership | None:
        """As `of`, but raises GroupError where a pod of ours cannot be placed."""
        stamped = annotations_of(pod).get(keys.POD_GROUP)
        if stamped:
            return Membership(stamped, labels(pod).get(keys.SUBGROUP, ""))
        if is_skipped(pod):
            return None
        reference = owner_reference_of(pod)
        if reference is None:
            return self._bare(pod)
        found = self.resolved(pod, str(reference.get("uid") or ""))
        if found.skipped:
            return None
        w, groups = found.for_pod(pod)
        if not groups:
            raise GroupError(
                "metadata.ownerReferences",
                "the workload has no group yet",
                "wait until its operator has made what it consists of",
                reason="GroupPending",
            )
        place = found.rule.place(w, pod, groups)
        return Membership(place.group, self._leaf(place, groups, pod) or "")

    def _bare(self, pod: Object) -> Membership | None:
        found = self.bare(pod)
        return found.place if found else None

    def bare(self, pod: Object) -> Bare | None:
        """Place and group of a pod without an owner, None where it is left alone.

        Derived anew only when the pod's labels or annotations say something else: a pod is written
        to many times in its life. Raises GroupError.
        """
        uid = uid_of(pod)
        namespace = self.reader.get("v1", "Namespace", namespace_of(pod))
        if not uid or is_skipped(pod) or is_skipped(namespace):
            return None
        meta = pod["metadata"]
        notes: Object = meta.get("annotations") or {}
        if keys.POD_GROUP in notes:
            notes = {k: v for k, v in notes.items() if k != keys.POD_GROUP}
        words = (meta.get("labels") or {}, notes)
        known = self._bare_known.get(uid)
        if known is None or known.words != words:
            whole = {"apiVersion": "v1", "kind": "Pod", **pod}
            rule, w = resolve(Workload(whole, (), whole, self.reader, self.settings))
            groups = tuple(rule.groups(w))
            place = Membership(rule.place(w, pod, groups).group, "")
            known = self._bare_known[uid] = Bare(words, place, groups)
        return known

    def resolved(self, pod: Object, owner_uid: str) -> Resolved:
        """The workload of a pod, from its nearest owner's UID where that is known."""
        known = self._known.get(owner_uid) if owner_uid else None
        if known is None:
            owners = chain_above(self.reader, pod, namespace_of(pod))
            known = resolve_chain(self.reader, self.settings, owners, pod)
            if owner_uid and all(not o.get("_stub") for o in owners):
                self._known[owner_uid] = known
                for uid in known.uids | {owner_uid}:
                    self._depend.setdefault(uid, set()).add(owner_uid)
        return known

    def forget(self, uid: str) -> None:
        """An object has changed: what was derived from it is derived again when asked for."""
        for owner_uid in self._depend.pop(uid, ()):
            self._known.pop(owner_uid, None)

    def forget_all(self) -> None:
        self._known.clear()
        self._bare_known.clear()
        self._depend.clear()

    # ------------------------------------------------------------------ seats

    def _leaf(self, place: Place, groups: object, pod: Object) -> str | None:
        """The leaf; for a pod of a multi-host set without an index, the first with a free seat."""
        if place.subgroup is None or not isinstance(groups, list | tuple):
            return place.subgroup
        group = next((g for g in groups if g.name == place.group), None)
        if group is None or all(s.parent != place.subgroup for s in group.sub_groups):
            return place.subgroup
        return self._seat(group, place.subgroup, pod)

    def _seat(self, group: Group, unit_set: str, pod: Object) -> str:
        leaves = [(s.name, s.min_member or 1) for s in group.sub_groups if s.parent == unit_set]
        with self._lock:
            taken = self._seats.setdefault((group.name, unit_set), {})
            uid = uid_of(pod)
            if uid in taken:
                return taken[uid]
            held: dict[str, int] = {}
            for leaf in taken.values():
                held[leaf] = held.get(leaf, 0) + 1
            free = next((name for name, size in leaves if held.get(name, 0) < size), None)
            leaf = free or leaves[-1][0]
            if uid:
                taken[uid] = leaf
            return leaf

    def sit(self, pod: Object) -> None:
        """Takes in where an existing pod sits, so that a restart gives nobody else its seat."""
        group, leaf = annotations_of(pod).get(keys.POD_GROUP), labels(pod).get(keys.SUBGROUP)
        if group and leaf and "-" in leaf:
            with self._lock:
                seats = self._seats.setdefault((group, leaf.rpartition("-")[0]), {})
                seats.setdefault(uid_of(pod), leaf)

    def leave(self, pod: Object) -> None:
        self._bare_known.pop(uid_of(pod), None)
        group, leaf = annotations_of(pod).get(keys.POD_GROUP), labels(pod).get(keys.SUBGROUP, "")
        if group:
            with self._lock:
                slot = (group, leaf.rpartition("-")[0])
                seats = self._seats.get(slot)
                if seats is not None:
                    seats.pop(uid_of(pod), None)
                    if not seats:
                        del self._seats[slot]

"""Makes PodGroups what workloads say, and lets go of those whose incarnation is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kai_ray.api import labels as keys
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, NotFound, Resource, key_of
from kai_ray.cluster.runtime import Runtime

from .chains import Resolved
from .cluster_reader import BY_OWNER, ClusterReader
from .creations import Creations
from .groups import DERIVED_QUEUE, Group, to_podgroup
from .outcome import told
from .podgroups import has_started, merged, with_leaves_of, without_sudden_floors
from .registry import is_workload, kind_key
from .report import Reporter, is_terminating
from .values import Object, annotations_of, labels, namespace_of, uid_of
from .workload import Settings

#: Index of pods by "namespace/group" of their annotation.
BY_GROUP = "podgrouper/group"
_FOREIGN = (None, "", "default-scheduler")
_ENDED = ("Succeeded", "Failed")


class Writer:
    """Writes only where something changed. Reads from the caches of its reader."""

    def __init__(
        self,
        reader: ClusterReader,
        reporter: Reporter,
        settings: Settings,
        again: Callable[[str], None],
    ) -> None:
        """again: told the keys that should look again at a group that was created for them."""
        self.reader = reader
        self.reporter = reporter
        self.settings = settings
        self._creations = Creations(again)
        self._runtime: Runtime | None = None

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def ours(self, pod: Object) -> bool:
        spec = pod.get("spec") or {}
        return spec.get("schedulerName") in self.settings.scheduler_names

    def pods_below(self, obj: Object, depth: int = 4) -> list[Object]:
        """Our pods under `obj`, whatever lies between."""
        uid = uid_of(obj)
        found = [p for p in self.reader.owned_by(uid, pods=True) if self.ours(p)]
        if depth:
            for child in self.reader.owned_by(uid, pods=False):
                if is_workload(child):
                    found += self.pods_below(child, depth - 1)
        return found

    def groups_of(self, owner: Object) -> list[Object]:
        cache = self.reader.cache(kinds.POD_GROUP)
        return cache.by_index(BY_OWNER, uid_of(owner)) if uid_of(owner) else []

    def write(
        self,
        resource: Resource | None,
        obj: Object,
        found: Resolved,
        pods: list[Object],
        asker: str,
    ) -> None:
        """Brings the groups of a workload up to date, if its pods are (or will be) ours.

        asker: the key that is being reconciled.
        """
        if is_terminating(obj) or not (pods or self._will_be_ours(obj, found)):
            return
        for group in found.groups:
            grows = kind_key(found.workload.subject)[0] == "ray.io"
            self.ensure(group, asker, grows=grows)
            for note in group.notes:
                self.reporter.warn(resource, obj, "PodGroupNote", note)
        self._retire(obj, {g.name for g in found.groups})
        if not any(g.notes for g in found.groups):
            self.reporter.settled(obj)

    def mark_end(self, obj: Object) -> None:
        """Says on the groups of a workload how it ended: its pods may be gone or tell nothing."""
        assert self._runtime is not None
        word = told(obj) or None
        for group in self.groups_of(obj):
            if annotations_of(group).get(keys.OUTCOME) == word:
                continue
            key, patch = key_of(group), {"metadata": {"annotations": {keys.OUTCOME: word}}}
            try:
                made = self._runtime.port.patch(kinds.POD_GROUP, key.name, patch, key.namespace)
            except NotFound:
                continue
            self.reader.cache(kinds.POD_GROUP).remember(made)

    def _will_be_ours(self, obj: Object, found: Resolved) -> bool:
        """By the scheduler that the templates name, or by the namespace where they name none."""
        namespace = self.reader.get("v1", "Namespace", namespace_of(obj))
        managed = labels(namespace).get(keys.MANAGED_NAMESPACE) == "true"
        for group in found.groups:
            for member in group.members:
                spec = member.template.get("spec")
                name = spec.get("schedulerName") if isinstance(spec, dict) else None
                if name in self.settings.scheduler_names or (managed and name in _FOREIGN):
                    return True
        return False

    def ensure(self, group: Group, asker: str, *, grows: bool = False) -> None:
        """Creates the PodGroup (soon: `send`) or brings it up to date, for the key `asker`.

        grows: it may gain pods while it runs.
        """
        assert self._runtime is not None
        port, cache = self._runtime.port, self.reader.cache(kinds.POD_GROUP)
        existing = cache.get(group.name, group.namespace)
        if existing is None:
            wanted = to_podgroup(group)
            if self._creations.later(wanted, asker):
                return
            try:
                cache.remember(port.create(kinds.POD_GROUP, wanted))
                return
            except AlreadyExists:
                existing = port.get(kinds.POD_GROUP, group.name, group.namespace)
        pods = self._live_pods(group)
        group = with_leaves_of(group, existing, {labels(p).get(keys.SUBGROUP, "") for p in pods})
        active = _active(pods)
        if grows and (active or has_started(existing)):
            group = without_sudden_floors(group, existing, active)
        updated = merged(existing, group)
        if updated is not None:
            cache.remember(port.update(kinds.POD_GROUP, updated))
        self.reporter.mark_group(existing, None)

    def send(self) -> None:
        """Creates the PodGroups that were asked for."""
        assert self._runtime is not None
        self._creations.send(self._runtime, self.reader.cache(kinds.POD_GROUP))

    def _live_pods(self, group: Group) -> list[Object]:
        if not group.sub_groups:
            return []
        stamped = f"{group.namespace}/{group.name}"
        pods = self.reader.cache(kinds.POD).by_index(BY_GROUP, stamped)
        return [p for p in pods if (p.get("status") or {}).get("phase") not in _ENDED]

    def _retire(self, obj: Object, names: set[str]) -> None:
        """Deletes groups of incarnations that are over: others took their place, no pod is left."""
        assert self._runtime is not None
        for group in self.groups_of(obj) if names else ():
            key = key_of(group)
            if key.name in names or DERIVED_QUEUE not in annotations_of(group):
                continue
            stamped = f"{key.namespace}/{key.name}"
            if self.reader.cache(kinds.POD).by_index(BY_GROUP, stamped):
                continue
            try:
                self._runtime.port.delete(kinds.POD_GROUP, key.name, key.namespace)
            except NotFound:
                continue


def has_node(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _active(pods: Iterable[Object]) -> dict[str, int]:
    count: dict[str, int] = {}
    for pod in pods:
        if has_node(pod):
            leaf = labels(pod).get(keys.SUBGROUP, "")
            count[leaf] = count.get(leaf, 0) + 1
    return count

"""Workloads that the scheduler has suspended: told to go, waited for, and put back into the queue.

A suspended workload would be out of the queue: nobody would count it, explain it or start it. So it
is suspended only for as long as its pods need to leave; then it is resumed, its operator makes its
pods anew, and they wait like any others. The workload itself carries when it was suspended, until
when it has to stay so, and since when it has been in the queue: a restart goes on from there.
"""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Key, Object, Resource, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import is_suspended, suspend_patch
from kai_ray.controllers.attempts import Attempts
from kai_ray.controllers.merge_patch import unchanged
from kai_ray.controllers.owners import controller, top_owner
from kai_ray.controllers.suspend import GANG_KINDS, can_suspend
from kai_ray.encode import Encoder
from kai_ray.encode.settings import in_shard

_BY_MASTER = "suspensions-master"
_BY_OWNER = "suspensions-owner"
#: Index of pods by "namespace/group" of their annotation.
BY_GROUP = "pods-by-group"
#: An operator that has not begun to end pods after this long does not obey the switch.
_UNHEARD_S = 15.0
#: Pods may take this long to end before the workload is put back while they still do.
_ENDING_S = 120.0
_LOOK_AGAIN_S = 1.0
_BY_KIND = {resource.kind: resource for resource in GANG_KINDS}
_NO_RESTART = "ray.io/disable-provisioned-head-restart"


class Suspensions:
    """Keys: "Kind namespace/name" of a workload."""

    name = "suspensions"

    def __init__(self, encoder: Encoder, attempts: Attempts) -> None:
        self._encoder = encoder
        self._attempts = attempts
        self._headless: dict[Key, Object] = {}  # Ray clusters whose head is never made again

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.add_index(_BY_OWNER, _owners)
        self._pods = runtime.informer(kinds.POD)
        self._pods.add_index(BY_GROUP, group_texts)
        for resource in GANG_KINDS:
            informer = runtime.informer(resource)
            informer.add_index(_BY_MASTER, _masters)
            informer.on_change(lambda old, new, resource=resource: self._seen(resource, old, new))
        self._groups.on_change(self._group_seen)

    def _seen(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        assert obj is not None
        if resource is kinds.RAY_CLUSTER:
            marked = new is not None and _annotations(obj).get(_NO_RESTART) == "true"
            if marked:
                self._headless[key_of(obj)] = obj
            else:
                self._headless.pop(key_of(obj), None)
        if any(o is not None and names.RESUME_AT in _annotations(o) for o in (old, new)):
            self._mark(_text(resource, key_of(obj)))

    def _groups_of(self, text: str) -> list[Object]:
        """The gangs of a workload that are in this shard: others are no concern of ours."""
        return [g for g in self._all_groups_of(text) if in_shard(g, self._encoder.config)]

    def _all_groups_of(self, text: str) -> list[Object]:
        """Also those of what was made for it: a TrainJob's JobSet has its gang."""
        owners = {text: None}
        for resource in GANG_KINDS:
            for child in self._runtime.informer(resource).by_index(_BY_MASTER, text):
                owners[_text(resource, key_of(child))] = None
        groups = [g for owner in owners for g in self._groups.by_index(_BY_OWNER, owner)]
        return list({key_of(g): g for g in groups}.values())

    def _chain(self, group: Object) -> tuple[str, ...]:
        """The workloads that a gang belongs to: its owners, and what those were made for."""
        found: dict[str, None] = {}
        for text in _owners(group):
            found[text] = None
            workload = self._workload(text)
            found |= dict.fromkeys(_masters(workload[1]) if workload is not None else ())
        return tuple(found)

    def _group_seen(self, old: Object | None, new: Object | None) -> None:
        """Gang and workload may be seen in any order."""
        if new is None:
            return
        if not in_shard(new, self._encoder.config):
            return
        for text in self._chain(new):
            found = self._workload(text)
            if found is not None and names.RESUME_AT in _annotations(found[1]):
                self._mark(text)

    def _mark(self, text: str) -> None:
        """At once, so that no decision counts on pods that are on their way out."""
        found = self._workload(text)
        if found is not None and is_suspended(*found):
            for group in self._groups_of(text):
                self._encoder.set_leaving(key_of(group), True)
        self._runtime.enqueue(self.name, text)

    def of(self, group: Object) -> tuple[Resource, Object] | None:
        """The workload whose switch sends away this gang and no other; None if there is none."""
        for text in self._chain(group):
            found = self._workload(text)
            if found is None or not can_suspend(*found):
                continue
            others = [g for g in self._groups_of(text) if key_of(g) != key_of(group)]
            if not any(self._placed(key_of(g)) for g in others):
                return found
        return None

    def under_way(self, group: Object) -> bool:
        """Whether the workload of this gang is told to go already."""
        for text in self._chain(group):
            found = self._workload(text)
            if found is not None and names.RESUME_AT in _annotations(found[1]):
                return is_suspended(*found)
        return False

    def last_resort(self) -> set[Key]:
        """Gangs that lose an attempt of their RayJob when they are evicted."""
        return self._attempts.last_resort()

    def irreplaceable(self) -> set[Key]:
        """Gangs without a switch whose head, once deleted, nobody makes again."""
        found: set[Key] = set()
        for cluster in self._headless.values():
            references = cluster["metadata"].get("ownerReferences") or ()
            space = cluster["metadata"].get("namespace") or ""
            texts = [f"{r.get('kind')} {space}/{r.get('name')}" for r in references]
            for text in (*texts, _text(kinds.RAY_CLUSTER, key_of(cluster))):
                for group in self._groups_of(text):
                    if self.of(group) is None and self._attempts.of(group) is None:
                        found.add(key_of(group))
        return found

    def suspend(
        self, workload: tuple[Resource, Object], group: Object, until_s: float, now_s: float
    ) -> Write:
        resource, obj = workload
        known = _annotations(obj).get(names.QUEUED_SINCE)
        since = _annotations(group).get(names.QUEUED_SINCE)
        patch = suspend_patch(resource, True)
        patch["metadata"] = {
            **unchanged(
                obj
            ),  # a namesake made since, or a change that we have not seen, refuses it
            "annotations": {
                names.RESUME_AT: rfc3339(until_s),
                names.SUSPENDED_AT: rfc3339(now_s),
                names.QUEUED_SINCE: known or since or group["metadata"].get("creationTimestamp"),
                names.EVICTION_NOTICE: None,
            },
        }
        key = key_of(obj)
        return Write(self._runtime.port.patch, (resource, key.name, patch, key.namespace))

    def suspended(self, resource: Resource, answer: Object, group: Key) -> bool:
        """Takes in the answer: False where this version of the kind does not know the switch."""
        self._runtime.informer(resource).remember(answer)
        if not is_suspended(resource, answer):
            return False
        self._encoder.set_leaving(group, True)
        return True

    def reconcile(self, key: str) -> float | None:
        found = self._workload(key)
        groups = [key_of(g) for g in self._groups_of(key)]
        if not groups and self._all_groups_of(key):
            return None  # of another shard
        due = _moment(_annotations(found[1]).get(names.RESUME_AT)) if found else None
        if found is None or due is None:
            return self._back(groups)
        resource, workload = found
        if not is_suspended(resource, workload):
            # Whoever has resumed it in the meantime is right; the mark alone goes.
            self._patch(resource, workload, {})
            return self._back(groups)
        for group in groups:
            self._encoder.set_leaving(group, True)
        if resource is kinds.RAY_CLUSTER:
            self._attempts.begin_again(workload)
        now = self._runtime.clock.now()
        if now < due:
            return due - now
        if self._still_there(groups, workload, now, due):
            return _LOOK_AGAIN_S
        self._patch(resource, workload, suspend_patch(resource, False))
        return self._back(groups)

    def _still_there(self, groups: list[Key], workload: Object, now: float, due: float) -> bool:
        told = _moment(_annotations(workload).get(names.SUSPENDED_AT)) or due
        pods = [p for group in groups for p in self._placed(group)]
        if not pods:
            return False
        ends = [_moment(p["metadata"].get("deletionTimestamp")) for p in pods]
        if any(end is not None and now < end for end in ends):
            return True  # they were given that long
        heard = all(end is not None for end in ends)
        return now < max(told, due) + (_ENDING_S if heard else _UNHEARD_S)

    def _back(self, groups: list[Key]) -> None:
        for group in groups:
            self._encoder.set_leaving(group, False)
        self._runtime.enqueue("scheduler", "cycle")

    def _patch(self, resource: Resource, workload: Object, patch: Object) -> None:
        key = key_of(workload)
        # Whoever has changed it in the meantime is right: it is looked at again.
        patch = {
            **patch,
            "metadata": {**unchanged(workload), "annotations": {names.RESUME_AT: None}},
        }
        answer = self._runtime.port.patch(resource, key.name, patch, key.namespace)
        self._runtime.informer(resource).remember(answer)

    def _placed(self, group: Key) -> list[Object]:
        pods = self._pods.by_index(BY_GROUP, f"{group.namespace}/{group.name}")
        return [
            p
            for p in pods
            if p["spec"].get("nodeName")
            and (p.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def _workload(self, text: str) -> tuple[Resource, Object] | None:
        kind, _, rest = text.partition(" ")
        resource = _BY_KIND.get(kind)
        if resource is None:
            return None
        namespace, _, name = rest.partition("/")
        found = self._runtime.informer(resource).get(name, namespace)
        return None if found is None else (resource, found)


def _owners(group: Object) -> tuple[str, ...]:
    found = (top_owner(group), controller(group))
    texts = [_text(o.resource, o.key) for o in found if o is not None and o.resource in GANG_KINDS]
    return tuple(dict.fromkeys(texts))


def _masters(workload: Object) -> tuple[str, ...]:
    """What a workload was made for by an operator, if that has a switch of its own."""
    found = controller(workload)
    if found is None or found.resource not in GANG_KINDS:
        return ()
    return (_text(found.resource, found.key),)


def group_texts(pod: Object) -> tuple[str, ...]:
    meta = pod["metadata"]
    annotations = meta.get("annotations")
    group = annotations.get(names.POD_GROUP) if isinstance(annotations, dict) else None
    return (f"{meta.get('namespace') or ''}/{group}",) if group else ()


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _moment(text: str | None) -> float | None:
    """A time that cannot be read is now: the workload is not left suspended."""
    if text is None:
        return None
    try:
        return epoch(text)
    except (ValueError, TypeError):
        return 0.0


def _text(resource: Resource, key: Key) -> str:
    return f"{resource.kind} {key.namespace}/{key.name}"

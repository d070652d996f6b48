"""Keeps a PodGroup for every workload of ours: from the workload itself, before it has pods.

Keys are objects, "group/Kind|namespace|name": a workload, or what owns a pod. An object that is not
the owner of its group hands over to the one that is. Pods without an owner have keys of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.api import labels as keys
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Invalid, Port, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.encode.settings import Membership

from .chains import chain_above, owner_reference_of, resolve_chain
from .cluster_reader import ClusterReader
from .members import Members
from .registry import RULES, WRAPPERS, is_workload, kind_key
from .report import Reporter, Say, is_terminating
from .values import (
    GroupError,
    Object,
    annotations_of,
    group_of,
    labels,
    metadata,
    name_of,
    namespace_of,
    owner_references,
    uid_of,
)
from .watching import (
    key_for,
    mentions,
    object_key,
    oldest,
    pod_says_the_same,
    queue_default_of,
    reference_keys,
    says_the_same,
    stamped_groups,
)
from .workload import Settings
from .writer import BY_GROUP, Writer, has_node

BY_OWNER_KEY = "podgrouper/owner-key"
_DISCOVER = "discover"
_CREATE = "create"
#: Kinds that rules read, though they own no pods.
READ_TOO = (
    ("run.ai", "Karta"),
    ("scheduler.grove.io", "PodGang"),
    ("serving.knative.dev", "Revision"),
)
_RETRY_S = 5.0


class Podgrouper:
    """The controller, and through `member_of` the index that admission and the encoder ask.

    say: told of refusals as Warning events; without it the controller writes events itself.
    writes: False for the index alone, where the controller runs in another process.
    """

    name = "podgrouper"

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        port: Port | None = None,
        say: Say | None = None,
        writes: bool = True,
    ) -> None:
        self._writes = writes
        self.settings = settings or Settings()
        self.reader = ClusterReader(port)
        self.members = Members(self.reader, self.settings)
        self.reporter = Reporter(say)
        self.writer = Writer(self.reader, self.reporter, self.settings, self._enqueue)
        self._runtime: Runtime | None = None

    def member_of(self, pod: Object) -> Membership | None:
        """Group and leaf of a pod, None while nobody can tell. Safe inside admission."""
        return self.members.of(pod)

    # ------------------------------------------------------------------ watching

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.reader.attach(runtime)
        self.reporter.attach(runtime)
        self.writer.attach(runtime)
        pods = self.reader.cache(kinds.POD)
        pods.add_index(BY_OWNER_KEY, reference_keys)
        pods.add_index(BY_GROUP, stamped_groups)
        for resource in (kinds.NAMESPACE, kinds.QUEUE, kinds.PRIORITY_CLASS, kinds.TOPOLOGY):
            if self.reader.serves(resource):
                self.reader.cache(resource).on_change(self._on_surroundings)
        groups = self.reader.cache(kinds.POD_GROUP)
        runtime.need(kinds.POD, kinds.POD_GROUP)
        groups.on_change(self._on_group)
        definitions = self.reader.cache(kinds.CRD) if self.reader.serves(kinds.CRD) else None
        self._discover()
        pods.on_change(self._on_pod)
        if definitions is not None:
            definitions.on_change(self._on_definition)

    def _discover(self) -> None:
        """Starts a cache for every kind with a rule that is served now."""
        for group, kind in (*RULES, *WRAPPERS, *READ_TOO):
            resource = self.reader.resource(f"{group}/" if group else "v1", kind)
            if resource is None or self.reader.cached(resource):
                continue
            if self.reader.serves(resource):
                self.reader.cache(resource).on_change(self._on_workload)

    def _on_definition(self, old: Object | None, new: Object | None) -> None:
        if new is not None and self.reader.learn(new) is not None:
            self._enqueue(_DISCOVER)

    def _on_workload(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and says_the_same(old, new):
            return
        obj = new or old
        assert obj is not None
        if kind_key(obj) == READ_TOO[0]:  # a kind is described anew
            self.members.forget_all()
        self._forget(obj)
        self._enqueue(key_for(obj))
        if new is None or old is None:  # what it belongs to has gained or lost a part
            for reference in owner_references(obj):
                self.members.forget(str(reference.get("uid")))
            self._enqueue_owners(obj)

    def _forget(self, obj: Object) -> None:
        self.members.forget(uid_of(obj))

    def _on_surroundings(self, old: Object | None, new: Object | None) -> None:
        """Queues, priority classes, namespaces: they decide fields of groups derived before."""
        obj = new if new is not None else old
        if (old is None or new is None) and (obj or {}).get("kind") in ("Queue", "PriorityClass"):
            self.members.forget_all()
            self._enqueue_if(lambda workload: mentions(workload, name_of(obj)))
        elif new is not None and queue_default_of(old) != queue_default_of(new):
            self.members.forget_all()
            self._enqueue_if(lambda workload: True)
        elif old is not None and (new is None or labels(old) != labels(new)):
            self.members.forget_all()
            if new is not None and new.get("kind") == "Namespace":
                self._enqueue_namespace(name_of(new))

    def _enqueue_namespace(self, namespace: str) -> None:
        self._enqueue_if(lambda workload: namespace_of(workload) == namespace)

    def _enqueue_if(self, concerned: Callable[[Object], bool]) -> None:
        """Workloads whose groups may have to say something else now."""
        for group, kind in RULES:
            resource = self.reader.resource(f"{group}/" if group else "v1", kind)
            if resource is not None and kind != "Pod" and self.reader.cached(resource):
                for obj in self.reader.cache(resource):
                    if concerned(obj):
                        self._enqueue(key_for(obj))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self.members.leave(old)
            self._enqueue_owner_of_group(old)
            return
        if old is None:
            self.members.sit(new)
        if not self.writer.ours(new) or (old is not None and pod_says_the_same(old, new)):
            return
        for key in reference_keys(new):
            self._enqueue(key)

    def _enqueue_owner_of_group(self, pod: Object) -> None:
        """A pod has gone: its group may have been kept for it alone."""
        name = annotations_of(pod).get(keys.POD_GROUP, "")
        group = self.reader.cache(kinds.POD_GROUP).get(name, namespace_of(pod)) if name else None
        self._enqueue_owners(group)

    def _enqueue_owners(self, obj: Object | None) -> None:
        for reference in owner_references(obj):
            group = group_of(str(reference.get("apiVersion") or ""))
            kind, name = str(reference.get("kind")), str(reference.get("name"))
            self._enqueue(object_key(group, kind, namespace_of(obj), name))

    def _on_group(self, old: Object | None, new: Object | None) -> None:
        """A group that vanished is made again if its workload still wants it."""
        if new is None:
            self._enqueue_owners(old)

    def _enqueue(self, key: str) -> None:
        assert self._runtime is not None
        self._runtime.enqueue(self.name, key)

    # ------------------------------------------------------------------ reconciling

    def reconcile(self, key: str) -> float | None:
        if key == _DISCOVER:
            self._discover()
            return None
        if not self._writes:
            return None
        if key == _CREATE:
            self.writer.send()
            return None
        kind, namespace, name = key.split("|", 2)
        group, _, kind = kind.rpartition("/")
        if (group, kind) == ("", "Pod"):
            return self._reconcile_pod(namespace, name)
        resource = self.reader.resource(f"{group}/" if group else "v1", kind)
        pods = self._pods_of_key(key)
        obj = self._object(resource, name, namespace)
        if obj is None:
            return self._unreadable(pods)
        return self._reconcile_owner(resource, obj, pods)

    def _object(self, resource: Resource | None, name: str, namespace: str) -> Object | None:
        if resource is None:
            return None
        found = self.reader.owner(resource.api_version, resource.kind, name, namespace)
        if found is not None and not found.get("kind"):
            return {**found, "apiVersion": resource.api_version, "kind": resource.kind}
        return found

    def _pods_of_key(self, key: str) -> list[Object]:
        found = self.reader.cache(kinds.POD).by_index(BY_OWNER_KEY, key)
        return [p for p in found if self.writer.ours(p)]

    def _reconcile_pod(self, namespace: str, name: str) -> float | None:
        pod = self.reader.cache(kinds.POD).get(name, namespace)
        if pod is None or not self.writer.ours(pod) or is_terminating(pod):
            return None
        if owner_references(pod):  # owners that contradict each other
            return self._place_pods([pod])
        stamped = annotations_of(pod).get(keys.POD_GROUP)
        if stamped and stamped != self._own_group_name(pod):
            return None  # the user's own group
        return self._place_pods([pod])

    def _own_group_name(self, pod: Object) -> str:
        notes = {k: v for k, v in annotations_of(pod).items() if k != keys.POD_GROUP}
        bare = {**pod, "metadata": {**metadata(pod), "annotations": notes}}
        found = self.members.of(bare)
        return found.group if found else ""

    def _unreadable(self, pods: list[Object]) -> float | None:
        """The owner is gone, or of a kind that we cannot read: pods show what can be known."""
        return self._place_pods(pods) if pods else None

    def _reconcile_owner(
        self, resource: Resource | None, obj: Object, pods: list[Object]
    ) -> float | None:
        if kind_key(obj) in WRAPPERS:
            self._enqueue_children(obj)
            return self._place_pods(pods)
        try:
            above = chain_above(self.reader, obj, namespace_of(obj))
        except GroupError as error:
            if is_terminating(obj):
                return None
            return self._refused(resource, obj, error, pods)
        found = resolve_chain(self.reader, self.settings, (obj, *above), oldest(pods))
        if found.skipped:
            return None
        subject = found.workload.subject
        if uid_of(subject) != uid_of(obj) and is_workload(subject):
            self._enqueue(key_for(subject))
            return None
        if found.rule.per_pod:
            return self._place_pods([*pods, *self.writer.pods_below(obj)])
        if found.error is not None:
            return self._refused(resource, obj, found.error, [*pods, *self.writer.pods_below(obj)])
        if not is_workload(subject) and not pods:
            return None
        try:
            self.writer.write(resource, obj, found, self.writer.pods_below(obj), key_for(obj))
        except Invalid as error:  # what it refers to may be mended: a Topology, say
            self._refused(resource, obj, _as_group_error(error), pods)
            return _RETRY_S
        self._enqueue(_CREATE)
        self.writer.mark_end(obj)
        return self._check_places(pods)

    def _enqueue_children(self, obj: Object) -> None:
        for child in self.reader.owned_by(uid_of(obj), pods=False):
            if is_workload(child):
                self._enqueue(key_for(child))

    def _refused(
        self, resource: Resource | None, obj: Object, error: GroupError, pods: list[Object]
    ) -> float | None:
        self.reporter.refused(resource, obj, error)
        self.reporter.hold_pods([p for p in pods if not has_node(p)], error)
        for group in self.writer.groups_of(obj):
            self.reporter.mark_group(group, error)
        return _RETRY_S if error.reason == "OwnerNotFound" else None

    def _check_places(self, pods: list[Object]) -> float | None:
        """Says of pods that are not stamped why they cannot be placed, if so."""
        for pod in pods:
            if keys.POD_GROUP in annotations_of(pod) or is_terminating(pod):
                continue
            try:
                self.members.must(pod)
            except GroupError as error:
                self.reporter.refused(kinds.POD, pod, error)
                if not has_node(pod):
                    self.reporter.hold_pods([pod], error)
        return None

    # ------------------------------------------------------------------ pods with their own groups

    def _place_pods(self, pods: list[Object]) -> float | None:
        """Groups for pods one by one: kinds with a group per pod, and owners that nobody knows."""
        again: float | None = None
        seen: set[str] = set()
        for pod in pods:
            if is_terminating(pod) or uid_of(pod) in seen:
                continue
            seen.add(uid_of(pod))
            try:
                self._place_pod({"apiVersion": "v1", "kind": "Pod", **pod})
            except GroupError as error:
                # What runs without its owner is being collected: that takes the cluster a while.
                if error.reason != "OwnerNotFound" or not has_node(pod):
                    self.reporter.refused(kinds.POD, pod, error)
                if not has_node(pod):
                    self.reporter.hold_pods([pod], error)
                if error.reason in ("OwnerNotFound", "GroupPending"):
                    again = _RETRY_S
        return again

    def _place_pod(self, pod: Object) -> None:
        reference = owner_reference_of(pod)
        if reference is None:
            bare = self.members.bare(pod)
            groups = bare.groups if bare else ()
        else:
            found = self.members.resolved(pod, str(reference.get("uid") or ""))
            if found.skipped or annotations_of(pod).get(keys.SKIP_PODGROUPER) == "true":
                return
            if not found.rule.per_pod and is_workload(found.workload.subject):
                self._enqueue(key_for(found.workload.subject))
                return
            _, groups = found.for_pod(pod)
        for group in groups:
            self.writer.ensure(group, key_for(pod))
            self._enqueue(_CREATE)
        self.reporter.settled(pod)


def _as_group_error(error: Invalid) -> GroupError:
    """The API server's refusal of a PodGroup, as something wrong with the workload."""
    first: Object = ((error.details or {}).get("causes") or [{}])[0]
    field, message = str(first.get("field") or "spec"), str(first.get("message") or error)
    return GroupError(f"PodGroup {field}", message, "mend the workload", reason="InvalidPodGroup")

"""Pods as columns, with everything a pod's row is joined from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.gpu.facts import SHARED
from kai_ray.scheduler.snapshot import TaskState

from . import pod_rows, reservations, volumes
from .dependents import Dependents
from .encoded import Orphan
from .gpu_table import groups_of
from .groups import DEFAULT_LEAF
from .pod_rows import Standing
from .problems import MISREAD, Malformed, Problem, text, texts
from .settings import MemberOf
from .shape import Shape, Shapes
from .symbols import Symbols
from .table import Table

if TYPE_CHECKING:
    from .encoder import Encoder

_COLUMNS = (
    ("leaf", "i"),
    ("klass", "i"),
    ("node", "i"),
    ("nominated", "i"),
    ("state", "b"),
    ("role", "b"),
    ("foreign", "b"),
    ("held", "b"),
    ("task_priority", "q"),
    ("created_s", "d"),
    ("stuck_s", "d"),
    ("bare", "b"),
)
LEAF, KLASS, NODE, NOMINATED = 0, 1, 2, 3
_CARRIED = f"metadata.annotations[{names.POD_GROUP}]"
_OUR_DEFAULTS = ("", "default-scheduler")


class PodTable:
    """`version` moves with every row that changes."""

    def __init__(self, encoder: Encoder, member_of: MemberOf | None) -> None:
        self.table: Table[Key] = Table(_COLUMNS)
        self.objects: dict[Key, Object] = {}
        self.places: Symbols[str] = Symbols()  # node names that pods mention
        self.version = 0
        self._encoder = encoder
        self._member_of = member_of
        self._shapes = Shapes()
        self._unresolved: set[Key] = set()
        self._managed: set[str] = set()
        self._assumed: dict[Key, tuple[str, str]] = {}
        self._requested: dict[Key, str] = {}
        self._held: dict[Key, str] = {}
        self._depends = Dependents()
        self._reservations = reservations.Reservations()
        self._by_namespace: dict[str, set[Key]] = {}

    def put(self, key: Key, pod: Object | None) -> None:
        if pod is None:
            self.objects.pop(key, None)
            self._by_namespace.get(key.namespace, set()).discard(key)
            self._assumed.pop(key, None)
            self._held.pop(key, None)
            self._encoder.report("Pod", key, None)
            self._drop(key)
            return
        if key not in self.objects:
            self._by_namespace.setdefault(key.namespace, set()).add(key)
        self.objects[key] = pod
        try:
            if key in self._assumed and pod["spec"].get("nodeName"):
                del self._assumed[key]
            self._encode(key, pod)
        except Malformed as error:
            self._refuse(key, error.field, error.mend)
        except MISREAD as error:
            self._refuse(key, "object", f"is not of the form of a Pod ({error!r})")
        else:
            if self._encoder.problems:
                self._encoder.report("Pod", key, None)

    def _refuse(self, key: Key, field: str, mend: str) -> None:
        problem = Problem("Pod", key.namespace, key.name, field, mend)
        self._encoder.report("Pod", key, problem)
        self._drop(key)

    def ours(self, pod: Object) -> bool:
        scheduler = pod["spec"].get("schedulerName") or ""
        if scheduler in self._encoder.config.scheduler_names:
            return True
        return scheduler in _OUR_DEFAULTS and pod["metadata"].get("namespace") in self._managed

    def _encode(self, key: Key, pod: Object) -> None:
        meta = pod["metadata"]
        standing = pod_rows.standing(
            pod, self._assumed_node(key, meta), self._encoder.config.stuck_after_s
        )
        if standing is None:
            self._drop(key)
            return
        labels = texts(meta.get("labels"), "metadata.labels")
        keeps = self._kept_cards(key, labels, standing)
        ours = not keeps and self.ours(pod)
        leaf = self._leaf(key, pod, labels) if ours else None
        if leaf is None and not (standing.node and standing.state != TaskState.SUCCEEDED):
            if ours and standing.state in (TaskState.PENDING, TaskState.GATED):
                self._drop(key, keep_unresolved=True)
                self._groupless(key, True)
                return
            self._drop(key)
            return
        shape = self._shape(key, pod, standing.node == "")
        if not ours:
            shape = shape.as_foreign()
        if keeps:
            shape, standing = self._reservation(key, keeps, shape, standing)
        self._share(key, pod, shape, standing)
        encoder = self._encoder
        status = pod.get("status")
        nominated = pod_rows.nominated(status) if status and not standing.node else ""
        created_s = pod_rows.created(meta)
        # From here on nothing may fail: what is acquired has to get into a row.
        row = (
            encoder.gangs.leaves.acquire(leaf) if leaf else -1,
            encoder.classes.acquire(key, labels, shape),
            self.places.acquire(standing.node) if standing.node else -1,
            self.places.acquire(nominated) if nominated else -1,
            standing.state,
            pod_rows.role(labels),
            int(not ours),
            int(key in self._held and self._held[key] == meta.get("uid")),
            pod_rows.task_priority(labels),
            created_s,
            standing.stuck_s,
            int(not meta.get("ownerReferences")),
        )
        before = self.table.put(key, row)
        if before is not None:
            self._release(before)
        if before != row:
            self.version += 1
        self._groupless(key, leaf is None and ours)

    def _kept_cards(
        self, key: Key, labels: dict[str, str] | None, standing: Standing
    ) -> tuple[tuple[str, str], ...]:
        """The cards that a pod keeps for those who share them; none for any other pod."""
        if key.namespace != self._encoder.config.reservation_namespace or not labels:
            return ()
        if labels.get(names.APP) != names.RESERVATION or not standing.node:
            return ()
        return reservations.cards_of(standing.node, reservations.groups_of_labels(labels))

    def _reservation(
        self, key: Key, cards: tuple[tuple[str, str], ...], shape: Shape, standing: Standing
    ) -> tuple[Shape, Standing]:
        """A card counts through those who share it; one that nobody shares is about to be free."""
        self._reservations.keep(key, cards)
        if self._reservations.shared(cards):
            return reservations.without_gpus(shape), standing
        return shape, standing._replace(state=TaskState.RELEASING)

    def _share(self, key: Key, pod: Object, shape: Shape, standing: Standing) -> None:
        """Notes who shares which cards: the pods that keep them are counted accordingly."""
        cards: tuple[tuple[str, str], ...] = ()
        if shape.gpu.kind in SHARED and standing.node and standing.state != TaskState.SUCCEEDED:
            groups = groups_of(pod) or self._encoder.granted_groups(key, pod)
            cards = reservations.cards_of(standing.node, groups)
        moved = self._reservations.share(key, cards)
        if moved:
            self._again(moved)

    def _release(self, row: tuple[float, ...]) -> None:
        self._encoder.gangs.leaves.release(int(row[LEAF]))
        self._encoder.classes.release(int(row[KLASS]))
        self.places.release(int(row[NODE]))
        self.places.release(int(row[NOMINATED]))

    def _groupless(self, key: Key, groupless: bool) -> None:
        """Notes whether a pod of ours has no group yet."""
        if groupless != (key in self._unresolved):
            self.version += 1
            if groupless:
                self._unresolved.add(key)
            else:
                self._unresolved.discard(key)

    def _drop(self, key: Key, *, keep_unresolved: bool = False) -> None:
        if not keep_unresolved:
            self._groupless(key, False)
        before = self.table.remove(key)
        if before is not None:
            self._release(before)
            self.version += 1
        self._reservations.keep(key, ())
        moved = self._reservations.share(key, ())
        if moved:
            self._again(moved)
        self._encoder.classes.index.drop_pod(key)
        self._depends.set(key, [])

    def _assumed_node(self, key: Key, meta: Object) -> str:
        assumed = self._assumed.get(key)
        if assumed is not None:
            if assumed[0] == meta.get("uid"):
                return assumed[1]
            del self._assumed[key]
        return self._requested.get(key, "")

    def _leaf(
        self, key: Key, pod: Object, labels: dict[str, str] | None
    ) -> tuple[str, str, str] | None:
        annotations = pod["metadata"].get("annotations")
        group = (
            text(annotations.get(names.POD_GROUP), "metadata.annotations") if annotations else ""
        )
        subgroup = labels.get(names.SUBGROUP) if labels else None
        if not group:
            found = self._member_of(pod) if self._member_of else None
            if found is None or not found[0]:
                return None
            group, subgroup = found[0], subgroup or found[1]
        if self._encoder.inert_groups and Key(key.namespace, group) in self._encoder.inert_groups:
            subgroup = None
        return key.namespace, group, subgroup or DEFAULT_LEAF

    def _shape(self, key: Key, pod: Object, unplaced: bool) -> Shape:
        shape = self._shapes.of(pod)
        depends: list[volumes.Dependency] = []
        refs = volumes.references(pod) if unplaced else []
        if refs:
            shape, depends = volumes.constrain(shape, refs, self._encoder.storage)
        if pod["spec"].get("resourceClaims"):
            shape, named = self._with_devices(shape, pod, unplaced)
            depends = [*depends, *named]
        self._depends.set(key, depends)
        return shape

    def _with_devices(
        self, shape: Shape, pod: Object, unplaced: bool
    ) -> tuple[Shape, list[volumes.Dependency]]:
        """The shape with what the pod's resource claims ask, and what that depends on."""
        asks, depends, (reason, words) = self._encoder.devices.claims.asked_by(pod)
        shape = shape._replace(devices=asks)
        if reason and unplaced and not shape.blocked:
            shape = shape._replace(blocked=reason, blocked_detail=words)
        return shape, depends

    def _again(self, keys: list[Key]) -> None:
        for key in sorted(keys):
            pod = self.objects.get(key)
            if pod is not None:
                self.put(key, pod)

    def depends_changed(self, kind: str, key: Key) -> None:
        """A claim, volume, class or ConfigMap has changed."""
        if kind == "StorageClass":
            self.kind_changed(kind)
        else:
            self._again(self._depends.on((kind, key.namespace, key.name)))

    def kind_changed(self, kind: str) -> None:
        """All that depends on any object of a kind is looked at anew."""
        self._again(self._depends.on_kind(kind))

    def put_managed(self, namespace: str, managed: bool) -> None:
        if managed == (namespace in self._managed):
            return
        if managed:
            self._managed.add(namespace)
        else:
            self._managed.discard(namespace)
        self._again(list(self._by_namespace.get(namespace, ())))

    def put_bind_request(self, key: Key, request: Object | None) -> None:
        """A request that is neither done nor failed counts as placed (KAI: Binding)."""
        try:
            spec = (request or {}).get("spec") or {}
            pod = Key(key.namespace, text(spec.get("podName"), "spec.podName") or key.name)
            phase = ((request or {}).get("status") or {}).get("phase") or "Pending"
            node = text(spec.get("selectedNode"), "spec.selectedNode")
        except MISREAD:
            return
        if request is not None and phase == "Pending" and node:
            self._requested[pod] = node
        else:
            self._requested.pop(pod, None)
        self._again([pod])

    def regroup(self, group: Key) -> None:
        """A PodGroup became readable or unreadable: its pods find their leaf anew."""
        members = [
            key
            for key in self._by_namespace.get(group.namespace, ())
            if self._in_group(self.objects[key], group.name)
        ]
        self._again(members)

    def _in_group(self, pod: Object, group: str) -> bool:
        annotations = pod["metadata"].get("annotations")
        if isinstance(annotations, dict) and names.POD_GROUP in annotations:
            return annotations[names.POD_GROUP] == group
        found = self._member_of(pod) if self._member_of else None
        return found is not None and found[0] == group

    def assume(self, pod: Key, uid: str, node: str) -> None:
        self._assumed[pod] = (uid, node)
        self._again([pod])

    def waits(self, pod: Key) -> bool:
        """Whether a pod of a gang of ours has no node and is not on its way to one."""
        row = self.table.get(pod)
        if row is None or row[NODE] >= 0 or row[LEAF] < 0 or pod in self._assumed:
            return False
        namespace, group, _ = self._encoder.gangs.leaves.key(int(row[LEAF]))
        return Key(namespace, group) in self._encoder.gangs

    def on_its_way_to(self, pod: Key) -> str:
        """The node that a pod is being bound to; "" for any other pod."""
        assumed = self._assumed.get(pod)
        return assumed[1] if assumed is not None else self._requested.get(pod, "")

    def forget(self, pod: Key) -> None:
        if self._assumed.pop(pod, None) is not None:
            self._again([pod])

    def hold(self, pod: Key, uid: str) -> None:
        self._held[pod] = uid
        self._again([pod])

    def unhold(self, pod: Key) -> None:
        if self._held.pop(pod, None) is not None:
            self._again([pod])

    def settle(self) -> None:
        """Finds the group of pods that had none, and the class of those matched anew."""
        if self._unresolved and self._member_of is not None:
            self._again([k for k in self._unresolved if self._member_of(self.objects[k])])
        moved = self._encoder.classes.moved
        while moved:
            key = moved.pop()
            row = self.table.get(key)
            if row is not None:
                klass = self._encoder.classes.rematch(key, int(row[KLASS]))
                if klass != row[KLASS]:
                    self.table.set(key, "klass", klass)
                    self.version += 1

    def unresolved(self) -> list[Orphan]:
        return [Orphan(key, "", "", False) for key in sorted(self._unresolved)]

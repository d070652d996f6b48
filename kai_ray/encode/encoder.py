"""Objects to arrays, incrementally: every change touches the rows it concerns, and no other.

Feed `apply` from informers (or from lists), take `snapshot(now)`. Rows are in the order of names,
so that the arrays depend on what the cluster is and not on how it came to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object, Resource, key_of
from kai_ray.history.usage import Usage

from . import bind_zones, budgets, eviction_facts, groups, node_rows, queues, topologies, zone_rows
from .assemble import Assembly
from .class_table import ClassTable
from .dra.cards import NodeCards
from .dra.claims import CLAIM, TEMPLATE, Held
from .dra.table import DeviceTable
from .encoded import Encoded
from .gang_table import GangTable
from .gpu_table import Grants, groups_of
from .node_rows import NodeTable
from .pod_table import PodTable
from .problems import MISREAD, Malformed, Problem, text, texts
from .settings import EncodeConfig, MemberOf, in_shard
from .volumes import Storage

#: What has to be fed. Kinds that never are (a cluster without claims) hold nothing up.
RESOURCES: tuple[Resource, ...] = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.QUEUE,
    kinds.NODE,
    kinds.STORAGE_CLASS,
    kinds.PV,
    kinds.PVC,
    kinds.CONFIG_MAP,
    kinds.TOPOLOGY,
    kinds.PDB,
    kinds.POD_GROUP,
    kinds.BIND_REQUEST,
    kinds.POD,
)

#: Kinds of add-ons that many servers do not serve: fed where they are.
ADDED_RESOURCES: tuple[Resource, ...] = (kinds.NODE_ZONES,)
#: Devices and claims to them, in the version that a server has (see `cluster/device_api.py`).
DEVICE_RESOURCES: tuple[Resource, ...] = (
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_SLICE,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_CLAIM,
)


class Encoder:
    """`version` moves when the next snapshot would differ from the last (time aside)."""

    def __init__(self, config: EncodeConfig | None = None, member_of: MemberOf | None = None):
        self.config = config or EncodeConfig()
        self.nodes = NodeTable()
        self.gangs = GangTable()
        self.classes = ClassTable()
        self.storage = Storage()
        self.queue_rows: dict[str, queues.QueueRow] = {}
        self.priorities: dict[str, int] = {}
        self.zones: dict[str, zone_rows.ZoneRow] = {}
        self.zone_rules = zone_rows.OWN_RULES
        self.topologies: dict[str, tuple[topologies.Level, ...]] = {}
        self.problems: dict[tuple[str, Key], Problem] = {}
        self.usage = Usage.none()
        self.budgets = budgets.BudgetTable()
        self.evictions = eviction_facts.EvictionTable()
        self.devices = DeviceTable()
        self.pods = PodTable(self, member_of)
        self.inert_groups: set[Key] = set()
        self._held: set[Key] = set()
        self._rows: dict[Key, groups.GroupRow] = {}
        self._other_version = 0
        self._assumed_devices: dict[Key, Grants] = {}
        self.assumed_zones: dict[Key, dict[str, str]] = {}
        """Annotations that a pod gets with its bind, as long as its object has none."""
        self._requested_devices: dict[Key, tuple[Key, Grants]] = {}
        self._requested_zones: set[Key] = set()
        self._requested_of: dict[Key, Grants] = {}
        self._assembly = Assembly(self)
        self._takers: dict[Resource, Callable[[Key, Object | None], None]] = {
            kinds.NAMESPACE: self._namespace,
            kinds.PRIORITY_CLASS: self._priority_class,
            kinds.QUEUE: self._queue,
            kinds.NODE: self._node,
            kinds.TOPOLOGY: self._topology,
            kinds.NODE_ZONES: self._node_zones,
            kinds.PDB: self._budget,
            kinds.POD_GROUP: self._group,
            kinds.BIND_REQUEST: self._bind_request,
            kinds.POD: self._pod,
        }

    @property
    def version(self) -> tuple[int, ...]:
        self.pods.settle()
        return (
            self.nodes.version,
            self.gangs.version,
            self.pods.version,
            self.evictions.version,
            self.budgets.version,
            self.devices.version,
            self._other_version,
        )

    def apply(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        """Takes in one change: `old` None for an addition, `new` None for a deletion."""
        obj = new if new is not None else old
        if obj is None:
            return
        key = key_of(obj)
        taker = self._takers.get(resource)
        if taker is not None:
            taker(key, new)
        elif resource.group == kinds.RESOURCE_CLAIM.group:
            if self.devices.put(resource.kind, key, new, guarded, self.report):
                self.pods.depends_changed(resource.kind, key)
        else:
            self._stored(resource.kind, key, new)

    def apply_all(self, resource: Resource, objects: Iterable[Object]) -> None:
        for obj in objects:
            self.apply(resource, None, obj)

    def snapshot(self, now_s: float) -> Encoded:
        """The arrays as of now. Parts that nothing touched since the last call are the same."""
        return self._assembly.take(now_s)

    def claimed_cards(self, node: str) -> NodeCards | None:
        """The GPUs of a node that slices offer and pods may share; None where there are none."""
        return self.devices.cards(self.nodes).get(node) if self.devices.active else None

    def next_stuck_s(self, now_s: float) -> float:
        """When the next releasing pod becomes stuck; inf = never."""
        return self._assembly.next_stuck_s(now_s)

    def assume(
        self,
        pod: Key,
        uid: str,
        node: str,
        groups: tuple[str, ...] = (),
        zones: tuple[tuple[str, str], ...] = (),
        claims: Iterable[tuple[Key, str, Held]] = (),
    ) -> None:
        """Counts a pod as placed from now on, until its object says so or `forget` is called.

        `groups` name the devices that it shares, `zones` are the annotations that tell which zones
        of the node it is to hold, `claims` what its resource claims (with their UIDs) are given.
        """
        self._grant(pod, uid, groups)
        for claim, claim_uid, held in claims:
            self.devices.give(claim, claim_uid, held, pod)
        if zones:
            self.assumed_zones[pod] = dict(zones)
        self.pods.assume(pod, uid, node)

    def _grant(self, pod: Key, uid: str, groups: tuple[str, ...]) -> None:
        before = self._assumed_devices.pop(pod, None)
        if groups:
            self._assumed_devices[pod] = Grants(uid, groups)
        if self._assumed_devices.get(pod) != before:
            self._other_version += 1

    def forget(self, pod: Key) -> None:
        """Takes an assumption back: the pod is pending again."""
        self._grant(pod, "", ())
        self.assumed_zones.pop(pod, None)
        self.devices.take_back(pod)
        self.pods.forget(pod)

    def hold(self, group: Key) -> None:
        """Nothing more of this gang may start until `release`."""
        if group not in self._held:
            self._held.add(group)
            self._regroup(group)

    def gave_up(self, group: Key) -> bool:
        """Whether the gang asked to be tried only once in its node pool, and has been."""
        row = self._rows.get(group)
        return row is not None and row.given_up

    def release(self, group: Key) -> None:
        if group in self._held:
            self._held.discard(group)
            self._regroup(group)

    def hold_pod(self, pod: Key, uid: str) -> None:
        """This pod may not start until `release_pod`."""
        self.pods.hold(pod, uid)

    def release_pod(self, pod: Key) -> None:
        self.pods.unhold(pod)

    def trust(self, resource: Resource, known: bool) -> None:
        """Whether an object of this kind that was never fed does not exist (else: who knows)."""
        if known != (resource.kind not in self.storage.hidden):
            if known:
                self.storage.hidden.discard(resource.kind)
            else:
                self.storage.hidden.add(resource.kind)
            self.pods.kind_changed(resource.kind)

    def unseen_claims(self, why: str) -> None:
        """Says why resource claims cannot be looked at; "" once they can."""
        if why != self.devices.claims.unseen:
            self.devices.claims.unseen = why
            for kind in (CLAIM, TEMPLATE):
                self.pods.kind_changed(kind)

    def _regroup(self, group: Key) -> None:
        row = self._rows.get(group)
        if row is not None:
            held = group in self._held or group in self.inert_groups or row.given_up
            self.gangs.put(group, row, held)

    def set_usage(self, usage: Usage) -> None:
        """What queues and users had so far, as parts of the cluster."""
        if usage != self.usage:
            self.usage = usage
            self._other_version += 1

    def report(self, kind: str, key: Key, problem: Problem | None) -> None:
        """Notes or clears what is wrong with an object."""
        slot = (kind, key)
        if problem is None:
            if self.problems and self.problems.pop(slot, None) is not None:
                self._other_version += 1
        elif self.problems.get(slot) != problem:
            self.problems[slot] = problem
            self._other_version += 1

    def _namespace(self, key: Key, new: Object | None) -> None:
        labels = None
        if new is not None:
            raw = new["metadata"].get("labels")
            labels, problem = guarded("Namespace", key, texts, raw, "metadata.labels")
            self.report("Namespace", key, problem)
            labels = labels or {}
        self.classes.index.put_namespace(key.name, labels)
        managed = bool(labels) and labels.get(names.MANAGED_NAMESPACE) == "true"
        self.pods.put_managed(key.name, managed)

    def _priority_class(self, key: Key, new: Object | None) -> None:
        before = dict(self.priorities)
        self.priorities.pop(key.name, None)
        if new is not None:
            value = new.get("value", 0)
            if isinstance(value, int) and abs(value) < 2**31:
                self.priorities[key.name] = value
                if new.get("globalDefault"):
                    self.priorities[""] = value
        if self.priorities != before:
            self._other_version += 1

    def _queue(self, key: Key, new: Object | None) -> None:
        before = self.queue_rows.get(key.name)
        if new is None or not in_shard(new, self.config):
            self.queue_rows.pop(key.name, None)
            if before is not None:
                self._other_version += 1
            return
        row = queues.read(new)
        if row != before:
            self.queue_rows[key.name] = row
            self._other_version += 1

    def _node(self, key: Key, new: Object | None) -> None:
        if new is None or not in_shard(new, self.config):
            self.nodes.remove(key.name)
            self.report("Node", key, None)
            return
        row, problem = guarded("Node", key, node_rows.read, new)
        self.report("Node", key, problem)
        self.nodes.put(key.name, row if row is not None else node_rows.inert())

    def _node_zones(self, key: Key, new: Object | None) -> None:
        """What a node's kubelet tells of its NUMA cells, in an object of the node's name."""
        before, row, problem = self.zones.pop(key.name, None), None, None
        if new is not None:
            row, problem = guarded("NodeResourceTopology", key, zone_rows.read, new)
        self.report("NodeResourceTopology", key, problem)
        if row is not None:
            self.zones[key.name] = row
        if row != before:
            self._other_version += 1

    def use_zones(self, rules: zone_rows.ZoneRules) -> bool:
        """Reads zones by these rules from now on; answers whether they are others than before."""
        if rules == self.zone_rules:
            return False
        self.zone_rules = rules
        self._other_version += 1
        return True

    def zones_of(self, name: str) -> zone_rows.ZoneRow | None:
        """What is known of a node's zones: cells by its object, or all by its annotation."""
        stated, told = self.nodes.rows[name].zones, self.zones.get(name)
        told = told if self.zone_rules.known else None
        if told is None or stated is None:
            return told or stated
        return told._replace(links=stated.links)

    def _topology(self, key: Key, new: Object | None) -> None:
        """One that cannot be read does not exist: gangs that name it wait and are told so."""
        before = self.topologies.pop(key.name, None)
        levels: tuple[topologies.Level, ...] | None = None
        problem: Problem | None = None
        if new is not None:
            levels, problem = guarded("Topology", key, topologies.read, new)
        self.report("Topology", key, problem)
        if levels is not None:
            self.topologies[key.name] = levels
        if levels != before:
            self._other_version += 1

    def _group(self, key: Key, new: Object | None) -> None:
        if new is None or not in_shard(new, self.config):
            self.gangs.remove(key)
            self._rows.pop(key, None)
            self.report("PodGroup", key, None)
            self._inert(key, False)
            self.evictions.remove(key)
            self.report("PodGroup note", key, None)
            return
        row, problem = guarded("PodGroup", key, groups.read, new, self.config)
        facts, wrong = guarded("PodGroup", key, eviction_facts.read, new)
        if wrong is not None:
            row, problem = None, problem or wrong
        self.report("PodGroup", key, problem)
        soft, _ = guarded("PodGroup", key, eviction_facts.soft_problem, new)
        note = Problem("PodGroup note", *key, soft.field, soft.mend) if soft else None
        self.report("PodGroup note", key, note)
        if row is None:
            row, _ = guarded("PodGroup", key, groups.frame, new)
            if row is None:
                row = groups.GroupRow("", "", -1, 0.0, float("-inf"), groups.INERT_TREE)
        self._inert(key, problem is not None)
        self._rows[key] = row
        self._regroup(key)
        self.evictions.put(key, facts)

    def _budget(self, key: Key, new: Object | None) -> None:
        budget, problem = None, None
        if new is not None:
            budget, problem = guarded("PodDisruptionBudget", key, budgets.read, new)
        self.report("PodDisruptionBudget", key, problem)
        self.budgets.put(key, budget)

    def _pod(self, key: Key, new: Object | None) -> None:
        if self._assumed_devices and (new is None or groups_of(new)):
            self._grant(key, "", ())
        if self.assumed_zones and (new is None or new["spec"].get("nodeName")):
            self.assumed_zones.pop(key, None)
        if new is None:
            self.devices.take_back(key)
        self.pods.put(key, new)

    def _bind_request(self, key: Key, new: Object | None) -> None:
        """A request that is under way says which devices its pod will share."""
        found, problem = guarded("BindRequest", key, _selected, new)
        self.report("BindRequest", key, problem)
        before = self._requested_devices.pop(key, None)
        if before is not None:
            self._requested_of.pop(before[0], None)
        if found is not None and found[1]:
            pod = Key(key.namespace, found[0] or key.name)
            self._requested_devices[key] = pod, Grants("", found[1])
            self._requested_of[pod] = self._requested_devices[key][1]
        if self._requested_devices.get(key) != before:
            self._other_version += 1
        readable = new if problem is None else None
        self._request_zones(key, readable, found[0] if found is not None else "")
        self.pods.put_bind_request(key, new)

    def _request_zones(self, key: Key, new: Object | None, name: str) -> None:
        """A request that is under way says which zones its pod will hold."""
        pod = Key(key.namespace, name or key.name)
        phase = ((new or {}).get("status") or {}).get("phase") or "Pending"
        notes: dict[str, str] | None = None
        if new is not None and phase == "Pending":
            notes, _ = guarded("BindRequest", key, bind_zones.requested_zones, new)
        if notes:
            self.assumed_zones[pod] = notes
            self._requested_zones.add(pod)
        elif pod in self._requested_zones:
            self._requested_zones.discard(pod)
            self.assumed_zones.pop(pod, None)

    def device_grants(self) -> dict[Key, Grants]:
        """Devices of pods whose objects do not name them yet: requested, or just decided."""
        asked = {pod: grants for _, (pod, grants) in sorted(self._requested_devices.items())}
        return asked | self._assumed_devices

    def granted_groups(self, key: Key, pod: Object) -> tuple[str, ...]:
        """The devices that a pod was given by a decision, as long as its object names none."""
        granted = self._assumed_devices.get(key) or self._requested_of.get(key)
        uid = pod["metadata"].get("uid") or ""
        return granted.groups if granted is not None and granted.uid in ("", uid) else ()

    def set_leaving(self, group: Key, leaving: bool, cause: str = "") -> None:
        """A gang that is told to go: its places are about to be free, nothing of it starts.

        Whoever said so (`cause`) takes back their own word only.
        """
        self.evictions.set_leaving(group, leaving, cause)

    def set_leaving_pods(self, group: Key, pods: frozenset[str]) -> None:
        """Pods of a gang that are told to go, by name, while the others stay."""
        self.evictions.set_leaving_pods(group, pods)

    def _inert(self, key: Key, inert: bool) -> None:
        if inert == (key in self.inert_groups):
            return
        if inert:
            self.inert_groups.add(key)
        else:
            self.inert_groups.discard(key)
        self.pods.regroup(key)

    def _stored(self, kind: str, key: Key, new: Object | None) -> None:
        table = self.storage.by_kind(kind)
        if new is None:
            table.pop(key, None)
        else:
            table[key] = new
        self.pods.depends_changed(kind, key)


def _selected(request: Object | None) -> tuple[str, tuple[str, ...]]:
    """The pod and the groups that a BindRequest names; none where it is gone or done."""
    spec = (request or {}).get("spec") or {}
    phase = ((request or {}).get("status") or {}).get("phase") or "Pending"
    groups = spec.get("selectedGPUGroups") if phase == "Pending" else ()
    return text(spec.get("podName"), "spec.podName"), tuple(
        text(group, "spec.selectedGPUGroups") for group in groups or ()
    )


def guarded(
    kind: str, key: Key, read: Callable[..., Any], *args: Any
) -> tuple[Any, Problem | None]:
    """The value, or None and what is wrong with the object: bad input never raises further."""
    try:
        return read(*args), None
    except Malformed as error:
        return None, Problem(kind, key.namespace, key.name, error.field, error.mend)
    except MISREAD as error:
        mend = f"is not of the form of a {kind} ({type(error).__name__}: {error})"
        return None, Problem(kind, key.namespace, key.name, "object", mend)

"""A small cluster in words, as a snapshot: what tests of the core are written in.

world = World([Node("a"), Node("b", gpus=4)], [Job("train", pods=[Pod(gpus=2)] * 3, minimum=3)])
world.decide().bound == {"train-0": "a", ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kai_ray.scheduler import DEFAULT, Plan, Policy, Reason, decide
from kai_ray.scheduler.explain import NameTable, explain
from kai_ray.scheduler.gpu.facts import Claim, GpuKind, Gpus, MigMode
from kai_ray.scheduler.plan import Wait
from kai_ray.scheduler.snapshot import (
    Classes,
    ClassRules,
    Gangs,
    Nodes,
    Op,
    PeerTerm,
    Queues,
    Requirement,
    Snapshot,
    Spread,
    SubGroups,
    Tasks,
    TaskState,
    Term,
)

GIB = 2**30
_NONE = np.iinfo(np.int64).min
P, R, X = TaskState.PENDING, TaskState.RUNNING, TaskState.RELEASING
#: (label key, operator, values or the bound)
Need = tuple[str, Op, "tuple[str, ...] | int"]


@dataclass(frozen=True)
class Node:
    name: str
    gpus: int = 8
    cpu: int = 64_000
    memory: int = 512 * GIB
    pods: int = 110
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    soft_taints: tuple[str, ...] = ()
    ready: bool = True
    cordoned: bool = False
    extra: int = 0  # of the extended resource "example.com/nic"
    card: int = 0  # MiB of memory of each GPU; 0 = it does not say
    mig: MigMode = MigMode.NONE
    sliced: bool = False  # its GPUs are offered by resource slices
    closed: tuple[int, ...] = ()  # devices that fail


@dataclass(frozen=True)
class Away:
    """Pods with the label value, seen per domain of a node label."""

    label: str
    key: str = "host"


@dataclass(frozen=True)
class Skew:
    label: str
    key: str = "zone"
    most: int = 1
    hard: bool = True
    domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True)
class Pod:
    gpus: int = 1
    cpu: int = 1000
    memory: int = GIB
    extra: int = 0
    state: TaskState = P
    node: str = ""
    label: str = ""
    needs: tuple[tuple[tuple[Need, ...], ...], ...] = ()  # AND of (OR of (AND of needs))
    wishes: tuple[tuple[int, tuple[Need, ...]], ...] = ()
    tolerates: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    near: tuple[Away, ...] = ()
    apart: tuple[Away, ...] = ()
    likes: tuple[tuple[int, Away], ...] = ()
    spread: tuple[Skew, ...] = ()
    blocked: Reason = Reason.NONE
    head: bool = False
    nominated: str = ""
    part: float = 0.0  # of each of `devices` cards
    mib: int = 0  # of each of `devices` cards
    devices: int = 1
    slots: tuple[int, ...] = ()  # the devices of its node that it shares
    claims: tuple[int, ...] = ()  # of World.claims
    legacy_mig: bool = False


@dataclass(frozen=True)
class Job:
    """`tree` has (name, parent, minimum, is leaf) of its rows; `leaf_of` the leaf of each pod."""

    name: str
    pods: Sequence[Pod] = (Pod(),)
    minimum: int = 1
    queue: str = "q"
    priority: int = 50
    preemptible: bool = True
    created: float = 0.0
    tree: tuple[tuple[str, str, int, bool], ...] = ()
    leaf_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Queue:
    name: str
    parent: str = ""
    gpu_quota: float = -1.0
    gpu_limit: float = -1.0
    weight: float = 1.0
    priority: int = 100
    paused: bool = False


@dataclass
class Outcome:
    plan: Plan
    bound: dict[str, str]
    nominated: dict[str, str]
    evicted: dict[str, tuple[Reason, str]]
    """Why, and for which job ("" = none), per pod that leaves."""
    devices: dict[str, tuple[int, ...]]  # slots that pods were given a part of
    waits: dict[str, Wait]
    names: NameTable

    def headline(self, job: str) -> str:
        return explain(self.waits[job], self.names).headline

    def details(self, job: str) -> tuple[str, ...]:
        return explain(self.waits[job], self.names).details


class World:
    """Rows in the order given; names decide ranks."""

    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Sequence[Job],
        queues: Sequence[Queue] = (Queue("q"),),
        claims: Sequence[Claim] = (),
    ) -> None:
        self.claims = tuple(claims)
        self.nodes, self.jobs, self.queues = list(nodes), list(jobs), list(queues)
        self.pod_names = [f"{job.name}-{i}" for job in jobs for i in range(len(job.pods))]
        self.pods = [pod for job in jobs for pod in job.pods]
        self.shapes = list(dict.fromkeys(_shape(pod) for pod in self.pods))
        self._keys = sorted({key for node in nodes for key in node.labels} | {"host", "zone"})
        self._values = sorted({v for node in nodes for v in node.labels.values()})
        self._values += sorted({node.name for node in nodes} - set(self._values))
        self._hard = sorted({t for node in nodes for t in node.taints})
        self._soft = sorted({t for node in nodes for t in node.soft_taints})
        self._peers: list[PeerTerm] = []
        self._peer_rows: dict[tuple[str, str], int] = {}

    def snapshot(self) -> Snapshot:
        classes = self._classes()
        nodes = self._nodes()
        usable = nodes.ready & ~nodes.cordoned
        return Snapshot(
            now_s=1000.0,
            seed=0,
            resources=("cpu", "memory", "gpu", "pods", "example.com/nic"),
            nodes=nodes,
            queues=self._queues(),
            gangs=self._gangs(),
            subgroups=self._subgroups(),
            tasks=self._tasks(),
            classes=classes,
            peers=tuple(self._peers),
            gpus=self._gpus(),
            port_conflicts=tuple((port,) for port in range(10)),
            total=nodes.allocatable[:3, usable].sum(axis=1).astype(np.float64),
        )

    def decide(self, policy: Policy = DEFAULT) -> Outcome:
        snapshot = self.snapshot()
        snapshot.validate()
        plan = decide(snapshot, policy)
        node = [n.name for n in self.nodes]
        bound = zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True)
        later = zip(plan.nominate_task.tolist(), plan.nominate_node.tolist(), strict=True)
        return Outcome(
            plan=plan,
            bound={self.pod_names[t]: node[n] for t, n in bound},
            nominated={self.pod_names[t]: node[n] for t, n in later},
            evicted=self._evicted(plan),
            devices=self._granted(plan),
            waits={self.jobs[w.gang].name: w for w in plan.waits},
            names=NameTable(
                resources=snapshot.resources,
                node=node.__getitem__,
                queue=lambda q: self.queues[q].name,
                gang=lambda g: self.jobs[g].name,
                queue_of=lambda g: self.jobs[g].queue,
            ),
        )

    def _granted(self, plan: Plan) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for task, slot in zip(plan.grant_task.tolist(), plan.grant_slot.tolist(), strict=True):
            name = self.pod_names[task]
            found[name] = (*found.get(name, ()), slot)
        return found

    def _evicted(self, plan: Plan) -> dict[str, tuple[Reason, str]]:
        rows = zip(
            plan.evict_task.tolist(),
            plan.evict_reason.tolist(),
            plan.evict_for.tolist(),
            strict=True,
        )
        return {
            self.pod_names[task]: (Reason(why), self.jobs[gang].name if gang >= 0 else "")
            for task, why, gang in rows
        }

    def _nodes(self) -> Nodes:
        rows = self.nodes
        label = np.full((len(self._keys), len(rows)), -1, dtype=np.int32)
        number = np.full(label.shape, _NONE, dtype=np.int64)
        for n, node in enumerate(rows):
            for key, value in {"host": node.name, **node.labels}.items():
                label[self._keys.index(key), n] = self._values.index(value)
                if value.lstrip("-").isdigit():
                    number[self._keys.index(key), n] = int(value)
        amounts = [[n.cpu, n.memory, n.gpus, n.pods, n.extra] for n in rows]
        return Nodes(
            allocatable=np.array(amounts, dtype=np.int64).reshape(-1, 5).T.copy(),
            rank=_rank([n.name for n in rows]),
            ready=np.array([n.ready for n in rows], dtype=np.bool_),
            cordoned=np.array([n.cordoned for n in rows], dtype=np.bool_),
            label_value=label,
            label_number=number,
            taints=_table(self._hard, [n.taints for n in rows]),
            soft_taints=_table(self._soft, [n.soft_taints for n in rows]),
            domain=label,
        )

    def _gpus(self) -> Gpus | None:
        plain = (n.card == 0 and n.mig == MigMode.NONE and not n.sliced for n in self.nodes)
        if all(plain) and all(_kind(pod) <= GpuKind.WHOLE for pod in self.pods):
            return None
        cards = [n.card for n in self.nodes if n.card > 100] or [0]
        holds = [(row, slot) for row, pod in enumerate(self.pods) for slot in pod.slots]
        pairs = np.array(holds, dtype=np.int32).reshape(-1, 2).T.copy()
        return Gpus(
            memory=np.array([n.card for n in self.nodes], dtype=np.int64),
            mig=np.array([n.mig for n in self.nodes], dtype=np.int8),
            dra=np.array([n.sliced for n in self.nodes], dtype=np.bool_),
            kind=np.array([_kind(p) for p in self.shapes], dtype=np.int8),
            devices=_codes([p.devices for p in self.shapes]),
            portion=np.array([p.part for p in self.shapes], dtype=np.float64),
            mib=np.array([p.mib for p in self.shapes], dtype=np.int64),
            hold_task=pairs[0],
            hold_slot=pairs[1],
            least_mib=min(cards),
            most_mib=max(cards),
            claims=self.claims,
            closed=tuple((row, slot) for row, n in enumerate(self.nodes) for slot in n.closed),
        )

    def _classes(self) -> Classes:
        rows = [(p.cpu, p.memory, p.gpus, 1, p.extra) for p in self.shapes]
        request = np.array(rows, dtype=np.int64).reshape(-1, 5).T.copy()
        charge = request[:3].astype(np.float64)
        charge[2] += [p.part * p.devices for p in self.shapes]
        return Classes(
            request=request,
            queue_request=charge,
            rules=tuple(self._rules(pod) for pod in self.shapes),
        )

    def _rules(self, pod: Pod) -> ClassRules:
        taints = [*self._hard, *self._soft]
        return ClassRules(
            required=tuple(tuple(self._term(t) for t in sel) for sel in pod.needs),
            preferred=tuple((weight, self._term(term)) for weight, term in pod.wishes),
            tolerates=tuple(i for i, taint in enumerate(taints) if taint in pod.tolerates),
            ports=pod.ports,
            affinity=tuple(self._peer(a.label, a.key) for a in pod.near),
            anti_affinity=tuple(self._peer(a.label, a.key) for a in pod.apart),
            preferred_affinity=tuple((w, self._peer(a.label, a.key)) for w, a in pod.likes),
            spread=tuple(
                Spread(
                    self._peer(s.label, s.key),
                    s.most,
                    s.hard,
                    s.domains,
                    s.honor_affinity,
                    s.honor_taints,
                )
                for s in pod.spread
            ),
            claims=pod.claims,
            blocked=int(pod.blocked),
        )

    def _term(self, needs: tuple[Need, ...]) -> Term:
        return tuple(self._requirement(*need) for need in needs)

    def _requirement(self, key: str, op: Op, value: tuple[str, ...] | int) -> Requirement:
        if key not in self._keys:
            self._keys.append(key)
        row = self._keys.index(key)
        if isinstance(value, int):
            return Requirement(row, op, number=value)
        codes = (self._values.index(v) if v in self._values else -1 for v in value)
        return Requirement(row, op, tuple(codes))

    def _peer(self, label: str, key: str) -> int:
        row = self._peer_rows.setdefault((label, key), len(self._peers))
        if row == len(self._peers):
            matches = np.array([shape.label == label for shape in self.shapes], dtype=np.bool_)
            self._peers.append(PeerTerm(self._keys.index(key), matches))
        return row

    def _queues(self) -> Queues:
        rows, names = self.queues, [q.name for q in self.queues]
        endless = [-1.0] * len(rows)
        return Queues(
            parent=_codes([names.index(q.parent) if q.parent else -1 for q in rows]),
            priority=_codes([q.priority for q in rows]),
            created_s=np.zeros(len(rows)),
            rank=_rank(names),
            quota=np.array([endless, endless, [q.gpu_quota for q in rows]], dtype=np.float64),
            limit=np.array([endless, endless, [q.gpu_limit for q in rows]], dtype=np.float64),
            weight=np.array([[q.weight for q in rows]] * 3, dtype=np.float64),
            usage=np.zeros((3, len(rows))),
            paused=np.array([q.paused for q in rows], dtype=np.bool_),
        )

    def _gangs(self) -> Gangs:
        names = [q.name for q in self.queues]
        sizes = [len(_tree(job)) for job in self.jobs]
        return Gangs(
            queue=_codes([names.index(j.queue) if j.queue in names else -1 for j in self.jobs]),
            priority=_codes([j.priority for j in self.jobs]),
            preemptible=np.array([j.preemptible for j in self.jobs], dtype=np.bool_),
            created_s=np.array([j.created for j in self.jobs], dtype=np.float64),
            rank=_rank([j.name for j in self.jobs]),
            root=_codes([sum(sizes[:g]) for g in range(len(sizes))]),
            started=np.zeros(len(self.jobs), dtype=np.bool_),
            last_start_s=np.full(len(self.jobs), np.nan),
        )

    def _subgroups(self) -> SubGroups:
        gang, parent, leaf, minimum, rank = [], [], [], [], []
        for g, job in enumerate(self.jobs):
            rows, base = _tree(job), len(gang)
            names = [row[0] for row in rows]
            for name, above, least, is_leaf in rows:
                gang.append(g)
                parent.append(-1 if name == "" else base + names.index(above))
                leaf.append(is_leaf)
                minimum.append(least)
            rank += _rank(names).tolist()
        return SubGroups(
            gang=_codes(gang),
            parent=_codes(parent),
            leaf=np.array(leaf, dtype=np.bool_),
            minimum=_codes(minimum),
            rank=_codes(rank),
        )

    def _tasks(self) -> Tasks:
        gang, leaf, base = [], [], 0
        for g, job in enumerate(self.jobs):
            names = [row[0] for row in _tree(job)]
            for i in range(len(job.pods)):
                gang.append(g)
                leaf.append(base + (names.index(job.leaf_of[i]) if job.tree else 1))
            base += len(names)
        node = [n.name for n in self.nodes]
        count = len(self.pods)
        return Tasks(
            gang=_codes(gang),
            leaf=_codes(leaf),
            klass=_codes([self.shapes.index(_shape(pod)) for pod in self.pods]),
            state=np.array([int(pod.state) for pod in self.pods], dtype=np.int8),
            node=_codes([node.index(pod.node) if pod.node else -1 for pod in self.pods]),
            role=np.array([0 if pod.head else 1 for pod in self.pods], dtype=np.int8),
            task_priority=np.full(count, _NONE, dtype=np.int64),
            created_s=np.zeros(count),
            rank=_rank(self.pod_names),
            nominated=_codes([node.index(p.nominated) if p.nominated else -1 for p in self.pods]),
        )


def running(node: str, **more: object) -> Pod:
    """A pod that runs on a node."""
    return Pod(state=R, node=node, **more)  # type: ignore[arg-type]


def _tree(job: Job) -> tuple[tuple[str, str, int, bool], ...]:
    """Rows of the job's tree; the root is called ""."""
    return job.tree or (("", "", 1, False), ("default", "", job.minimum, True))


def _kind(pod: Pod) -> GpuKind:
    """How the pod asks for GPUs."""
    if pod.legacy_mig:
        return GpuKind.LEGACY_MIG
    if pod.part:
        return GpuKind.FRACTION
    if pod.mib:
        return GpuKind.MEMORY
    if pod.claims:
        return GpuKind.DRA
    return GpuKind.WHOLE if pod.gpus else GpuKind.NONE


def _shape(pod: Pod) -> Pod:
    """The pod without what tells it from others of its class."""
    fields = {name: getattr(pod, name) for name in Pod.__dataclass_fields__}
    return Pod(**{**fields, "state": P, "node": "", "head": False, "nominated": "", "slots": ()})


def _codes(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def _rank(names: Sequence[str]) -> np.ndarray:
    rank = np.empty(len(names), dtype=np.int32)
    rank[np.argsort(np.array(names, dtype=object), kind="stable")] = np.arange(len(names))
    return rank


def _table(names: Sequence[str], held: Sequence[Sequence[str]]) -> np.ndarray:
    rows = [[name in mine for mine in held] for name in names]
    return np.array(rows, dtype=np.bool_).reshape(len(names), len(held))

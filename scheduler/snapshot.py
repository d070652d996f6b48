"""The world as arrays: what `decide` reads, and nothing else.

Struct-of-arrays, resource-major. `R` resource rows, `N` nodes, `Q` queues, `G` gangs, `S`
subgroups, `T` tasks (pods), `C` task classes. Node books are integers (millicores, bytes, whole
devices, slots), so sums are exact and do not depend on order; queue books are float64 with -1 for
"unlimited". Names never enter: where a rule breaks a tie by name, the encoder gives a `rank` column
(position in the name order).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .gpu.facts import Gpus
from .topology.facts import Topologies
from .zones.facts import Zones

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bytes = NDArray[np.int8]
Floats = NDArray[np.float64]

#: The first rows of `Snapshot.resources`, always present and in this order. Further rows are
#: "ephemeral-storage" and extended resources by name, in integer units.
CPU, MEMORY, GPU, PODS = 0, 1, 2, 3
#: Rows of every queue array: millicores, bytes, devices.
QUEUE_RESOURCES = 3
UNLIMITED = -1.0


class TaskState(IntEnum):
    """Where a pod stands. Numbers are stable: recordings hold them."""

    PENDING = 0
    GATED = 1
    BINDING = 2  # granted, the bind has not been seen yet
    BOUND = 3
    RUNNING = 4
    RELEASING = 5  # being deleted; its room is about to be free
    STUCK = 6  # being deleted for so long that nobody may count on its room
    SUCCEEDED = 7
    FAILED = 8


#: States that occupy a node.
USED = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING, TaskState.STUCK)
#: States that count as allocated to a queue and a gang.
ALLOCATED = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)


class Op(IntEnum):
    """Operators of a label requirement (Kubernetes NodeSelectorRequirement)."""

    IN = 0
    NOT_IN = 1
    EXISTS = 2
    DOES_NOT_EXIST = 3
    GT = 4
    LT = 5


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label requirement; `key` indexes rows of `Nodes.label_value`.

    `values` are codes of that row for IN / NOT_IN; `number` is the bound of GT / LT.
    """

    key: int
    op: Op
    values: tuple[int, ...] = ()
    number: int = 0


#: A term is an AND of requirements, a selector an OR of terms. An empty selector matches nothing.
Term = tuple[Requirement, ...]
Selector = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class PeerTerm:
    """One (anti-)affinity or spread selector over pods, per topology key.

    `matches` says for each class whether its pods match the selector (namespace included).
    `topology` indexes rows of `Nodes.domain`.
    """

    topology: int
    matches: Bools  # [C]


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint of a class (Kubernetes PodTopologySpread)."""

    peer: int
    max_skew: int
    hard: bool  # DoNotSchedule
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class Layout(IntEnum):
    """How the pods of a class are laid out over nodes that suit equally."""

    POLICY = 0  # as the Policy says
    BINPACK = 1
    SPREAD = 2


@dataclass(frozen=True, slots=True)
class ClassRules:
    """What a class asks of its node beyond resources. Indices into the snapshot's tables."""

    required: tuple[Selector, ...] = ()  # AND of selectors: nodeSelector, affinity, volumes
    preferred: tuple[tuple[int, Term], ...] = ()  # (weight 1..100, term)
    tolerates: tuple[int, ...] = ()  # rows of Nodes.taints that are tolerated
    ports: tuple[int, ...] = ()  # host ports, codes of Snapshot.port_conflicts
    affinity: tuple[int, ...] = ()  # PeerTerm indices, required
    anti_affinity: tuple[int, ...] = ()  # PeerTerm indices, required
    preferred_affinity: tuple[tuple[int, int], ...] = ()  # (signed weight, PeerTerm index)
    spread: tuple[Spread, ...] = ()
    claims: tuple[int, ...] = ()  # resource claims that its pods share, of Gpus.claims
    queue_nodes: tuple[Selector, ...] = ()  # AND of selectors that its queue adds (filters/queue)
    reserved: tuple[Selector, ...] = ()  # nodes not kept for others (same form)
    layout: Layout = Layout.POLICY  # how its pods are laid out, where its queue says so
    blocked: int = 0  # a Reason value: no node can ever take it (missing claim, ...); 0 = none
    blocked_detail: str = ""  # the object that blocks it, for the sentence shown


def stated(column: Floats | None, count: int, otherwise: float = float("nan")) -> Floats:
    """An optional column with every entry: `otherwise` where nothing is stated."""
    if column is None:
        return np.full(count, otherwise)
    return np.where(np.isnan(column), otherwise, column)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Rows are nodes of this shard. `allocatable` may be smaller than what is used."""

    allocatable: Ints  # [R, N]
    rank: Codes  # [N] position in name order
    ready: Bools  # [N] Ready and no pressure condition
    cordoned: Bools  # [N] spec.unschedulable
    label_value: Codes  # [K, N] code of the value of label key k; -1 absent
    label_number: Ints  # [K, N] the value as an integer, for GT/LT; INT64_MIN when it is none
    taints: Bools  # [X, N] hard taints (NoSchedule, NoExecute), a row per (key, value, effect)
    soft_taints: Bools  # [Y, N] PreferNoSchedule; toleration rows follow the hard ones
    domain: (
        Codes  # [D, N] code of the node's domain per topology key; -1 where the label is missing
    )

    @property
    def count(self) -> int:
        return self.rank.shape[0]


@dataclass(frozen=True, slots=True)
class Queues:
    """Rows are queues, parents before children. Amounts are [3, Q]: millicores, bytes, GPUs."""

    parent: Codes  # [Q]; -1 = top level
    priority: Codes  # [Q] default 100
    created_s: Floats  # [Q]
    rank: Codes  # [Q] name order
    quota: Floats  # [3, Q]; -1 = unlimited
    limit: Floats  # [3, Q]; -1 = none
    weight: Floats  # [3, Q] over-quota weight
    usage: Floats  # [3, Q] historical usage / capacity, 0..1
    paused: Bools  # [Q] starts nothing new (an ancestor's pause counts too)
    preempt_min_runtime_s: Floats | None = None  # [Q] NaN = ask the parent queue
    reclaim_min_runtime_s: Floats | None = None  # [Q] NaN = ask the parent queue

    @property
    def count(self) -> int:
        return self.parent.shape[0]


@dataclass(frozen=True, slots=True)
class Gangs:
    """Rows are PodGroups. `root[g]` is the gang's row in SubGroups; its rows are contiguous."""

    queue: Codes  # [G]; -1 = the queue does not exist (the gang waits with that reason)
    priority: Codes  # [G]
    preemptible: Bools  # [G]
    created_s: Floats  # [G]
    rank: Codes  # [G] name order (namespace last)
    root: Codes  # [G]
    started: Bools  # [G] held its minimum at some time before
    last_start_s: Floats  # [G] NaN = never
    # What follows is None where no gang has it.
    core_safe: Bools | None = None  # [G] semi-preemptible: only what exceeds the minimum may go
    last_resort: Bools | None = None
    """[G] evicting its minimum costs it an attempt: it goes only where no other victims serve."""
    stale_since_s: Floats | None = None  # [G] below its minimum since; NaN = not seen so before
    staleness_grace_s: Floats | None = None  # [G] NaN = the policy's; negative = never evict
    preemption_delay_s: Floats | None = None  # [G] how long it waits before others must go for it
    last_eviction_s: Floats | None = None  # [G] when pods of it were last evicted; NaN = never
    checkpoint_s: Floats | None = None  # [G] when its work was last saved; NaN = does not say
    hold_until_s: Floats | None = None
    """[G] until when the nodes that its pending pods are nominated to are kept for it, because
    others were evicted there on its behalf; NaN = no hold."""
    moved: Bools | None = None
    """[G] holds that are only for pods of the gang that had to change their node: the room is kept,
    but nobody left for it, so it may be a victim like any other."""
    user_usage: Floats | None = None  # [G] what its user had lately, as a part of the cluster: >= 0
    refusal: Codes | None = None  # [G] a Reason why it may not compete (see admittance); 0 = none
    leave: Codes | None = None  # [G] a Reason why all its pods must go now (dismissal); 0 = none

    @property
    def count(self) -> int:
        return self.queue.shape[0]


@dataclass(frozen=True, slots=True)
class SubGroups:
    """Rows are nodes of the gangs' trees, parents before children. Leaves hold pods.

    `minimum` counts pods for a leaf and direct children for a set. Every gang has a root set; a
    gang without subgroups has a root with one leaf.
    """

    gang: Codes  # [S]
    parent: Codes  # [S]; -1 = root of its gang
    leaf: Bools  # [S]
    minimum: Codes  # [S]
    rank: Codes  # [S] name order inside the gang
    # What each asks of the topology (a root: the gang); None where nobody does. -1 = nothing,
    # -2 = a name that does not exist: then the gang waits with that reason.
    topology: Codes | None = None  # [S] of Snapshot.topologies
    required_level: Codes | None = None  # [S] level of it, 0 = the widest: one domain or none
    preferred_level: Codes | None = None  # [S] level of it: one domain if any fits, else few
    asked: Codes | None = None
    """[S] pods that were asked for so far, of leaves that grow together: once the gang has its
    minimum, all that waits in those leaves starts, or none. -1 = one pod after the other."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Rows are pods: ours, and those of other schedulers (`gang` -1), which only occupy room."""

    gang: Codes  # [T]; -1 = not ours
    leaf: Codes  # [T] row in SubGroups; -1 if gang is -1
    klass: Codes  # [T] row of Classes
    state: Bytes  # [T] TaskState
    node: Codes  # [T]; -1 = none
    role: Bytes  # [T] 0 = master, launcher or Ray head: placed first, evicted last; 1 = other
    task_priority: Ints  # [T] kai.scheduler/task-priority; INT64_MIN = none
    created_s: Floats  # [T]
    rank: Codes  # [T] final tie (UID or name order)
    nominated: Codes  # [T] node named by status.nominatedNodeName; -1 none
    budget: Codes | None = None  # [T] row of Snapshot.disruptions; -1 = none, None = nobody has one

    @property
    def count(self) -> int:
        return self.gang.shape[0]


@dataclass(frozen=True, slots=True)
class Classes:
    """Distinct (request, rules) signatures. Pods of a gang are nearly always one class."""

    request: Ints  # [R, C]
    queue_request: Floats  # [3, C] what is charged to the queue
    rules: tuple[ClassRules, ...]  # [C]

    @property
    def count(self) -> int:
        return self.request.shape[1]


@dataclass(frozen=True, slots=True)
class Reserve:
    """GPUs that are kept for gangs in or below a queue, as places on single nodes (reserve.py)."""

    queue: int
    gpus: int  # in all
    size: int = 1  # GPUs of a place
    nodes: tuple[Selector, ...] = ()  # AND of selectors: nodes that the queue may use


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One immutable picture of the cluster. `decide(snapshot, policy)` depends on nothing else."""

    now_s: float
    seed: int
    resources: tuple[str, ...]  # [R] names of the resource rows
    nodes: Nodes
    queues: Queues
    gangs: Gangs
    subgroups: SubGroups
    tasks: Tasks
    classes: Classes
    peers: tuple[PeerTerm, ...] = ()
    port_conflicts: tuple[tuple[int, ...], ...] = ()  # per port code: codes it collides with
    disruptions: tuple[int, ...] = ()  # per PodDisruptionBudget: pods that may be evicted now
    kept: Ints | None = None
    """[R, N] room that is held for pods that were evicted to be moved there and are not made again
    yet: nobody may take it. None = nothing is held."""
    coming: Floats | None = None
    """[3, G] what queues stay charged for such pods: nobody else uses up the limit that they come
    back to. None = nothing."""
    reserves: tuple[Reserve, ...] = ()  # at most one per queue
    gpus: Gpus | None = None  # None = only whole GPUs, or none
    topologies: Topologies | None = None  # None = no Topology objects
    zones: Zones | None = None  # NUMA cells of nodes; None = no node tells
    links: Zones | None = None  # groups of GPUs that are linked (NVLink); None = no node tells
    matches: tuple[Zones, ...] = ()
    """Claimed devices by the value of an attribute in which those of a pod must agree."""
    total: Floats = field(default_factory=lambda: np.zeros(QUEUE_RESOURCES))
    """[3] what the top-level queues divide: usable nodes less other schedulers' pods (KAI 4.2)."""

    def validate(self) -> None:
        """Raises SnapshotError, naming each field and its mend, where the arrays are malformed."""
        from .validate import validate  # that module reads this one

        validate(self)

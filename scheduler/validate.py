"""Does a snapshot keep its own promises: shapes, index ranges, quantities, trees, ties.

Each problem names the field, the first row that is wrong and what mends it. All checks are vector
steps; a snapshot that passes cannot make `decide` raise or loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gpu.validate import gpu_problems, gpu_shape_problems
from .reason import Reason
from .snapshot import Bools, Classes, ClassRules, Codes, Snapshot, TaskState
from .topology.validate import topology_problems, topology_shape_problems

#: Amounts at or beyond this cannot be counted in 64 bits.
TOO_LARGE = 2.0**63

#: Arrays are as long as the largest code of a domain: none has more nodes than this.
_MOST_CODES = 2**20
_REASONS = np.array([int(reason) for reason in Reason])
_TYPES = {"i8": np.int64, "i4": np.int32, "i1": np.int8, "f8": np.float64, "b1": np.bool_}
_Array = NDArray[Any]


class SnapshotError(ValueError):
    """The snapshot is malformed; `problems` lists every field found wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def validate(snapshot: Snapshot) -> None:
    """Raises SnapshotError unless every field has its shape, type, range and order.

    Ranges are only looked at once all shapes are right.
    """
    found = _Findings()
    _shapes(snapshot, found)
    if not found.problems:
        _nodes(snapshot, found)
        _queues(snapshot, found)
        _gangs(snapshot, found)
        _subgroups(snapshot, found)
        for problem in (*topology_problems(snapshot), *gpu_problems(snapshot)):
            found.add(*problem)
        _tasks(snapshot, found)
        _classes(snapshot, found)
    if found.problems:
        raise SnapshotError(found.problems)


class _Findings:
    """Collects one sentence per field."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def add(self, field: str, wrong: str, mend: str) -> None:
        self.problems.append(f"{field}: {wrong}; {mend}")

    def rows(self, field: str, bad: Bools, values: _Array, mend: str) -> None:
        """Reports the first place where `bad` is set, with its value."""
        if bad.any():
            place = tuple(int(i) for i in np.argwhere(bad)[0])
            value = values[place].item()
            self.add(field, f"row {', '.join(map(str, place))} is {value}", mend)

    def index(self, field: str, values: _Array, count: int, lowest: int = 0) -> bool:
        """Reports values outside lowest .. count - 1; True if there are none."""
        bad = (values < lowest) | (values >= count)
        none = ", or -1 for none" if lowest < 0 else ""
        self.rows(field, bad, values, f"use a row number below {count}{none}")
        return not bad.any()

    def amount(self, field: str, values: _Array, unlimited: bool) -> None:
        """Reports what is no amount: NaN, infinite, above 2^63, negative other than -1.

        2^63 itself is the largest integer, as a float.
        """
        low = (values < 0) & ~(unlimited & (values == -1))
        bad = ~np.isfinite(values) | low | (values > TOO_LARGE)
        mend = "give a number from 0 to 2^63 - 1" + (", or -1 for unlimited" if unlimited else "")
        self.rows(field, bad, values, mend)

    def finite(self, field: str, values: _Array) -> None:
        bad = ~np.isfinite(values) | (np.abs(values) >= TOO_LARGE)
        self.rows(field, bad, values, "give a finite number below 2^63")

    def seconds(self, field: str, values: _Array | None, lowest: float = -TOO_LARGE) -> None:
        """Reports times that are infinite or below `lowest`. NaN says that nothing is stated."""
        if values is not None:
            bad = np.isinf(values) | (values < lowest) | (values >= TOO_LARGE)
            mend = "give seconds" + (" from 0" if lowest == 0 else "") + ", or NaN for none"
            self.rows(field, bad, values, mend)

    def distinct(self, field: str, *columns: _Array) -> None:
        """Reports two rows that are equal in all columns."""
        order = np.lexsort(columns)
        same = np.ones(max(order.shape[0] - 1, 0), dtype=np.bool_)
        for column in columns:
            same &= column[order[1:]] == column[order[:-1]]
        if same.any():
            at = int(np.argmax(same))
            rows = sorted((int(order[at]), int(order[at + 1])))
            self.add(field, f"rows {rows[0]} and {rows[1]} are equal", "number names in order")


def _shapes(snapshot: Snapshot, found: _Findings) -> None:
    """Every array against the dimension letters of snapshot.py."""
    n, q, c = snapshot.nodes.count, snapshot.queues.count, snapshot.classes.count
    g, t, s = snapshot.gangs.count, snapshot.tasks.count, snapshot.subgroups.gang.shape[0]
    r, k = len(snapshot.resources), snapshot.nodes.label_value.shape[0]
    x, y = snapshot.nodes.taints.shape[0], snapshot.nodes.soft_taints.shape[0]
    size = {"R": r, "N": n, "Q": q, "G": g, "S": s, "T": t, "C": c, "K": k, "X": x, "Y": y, "3": 3}
    size["D"] = snapshot.nodes.domain.shape[0]
    for table, fields in _FIELDS.items():
        owner = getattr(snapshot, table)
        for field, spec in fields.items():
            dims, kind = spec.split(":")
            shape = tuple(size[d] for d in dims)
            array: _Array | None = getattr(owner, field)
            if array is None and field in _OPTIONAL:
                continue
            assert array is not None, f"{table}.{field} is required"
            if array.shape != shape:
                mend = f"give {list(dims)} = {list(shape)}"
                found.add(f"{table}.{field}", f"has shape {list(array.shape)}", mend)
            elif array.dtype != _TYPES[kind]:
                mend = f"give {_TYPES[kind].__name__}"
                found.add(f"{table}.{field}", f"holds {array.dtype}", mend)
    if r < 4 or len(set(snapshot.resources)) < r:
        mend = "name CPU, memory, GPU, pods, then further ones, each once"
        found.add("resources", f"is {snapshot.resources}", mend)
    if len(snapshot.classes.rules) != c:
        found.add("classes.rules", f"has {len(snapshot.classes.rules)} entries", f"give {c}")
    kept = snapshot.kept
    if kept is not None and (kept.shape != (r, n) or kept.dtype != np.int64 or (kept < 0).any()):
        found.add("kept", "is malformed", "give [R, N] integers from 0")
    coming = snapshot.coming
    if coming is not None and (
        coming.shape != (3, g) or coming.dtype != np.float64 or not (coming >= 0).all()
    ):
        found.add("coming", "is malformed", "give [3, G] amounts from 0")
    if snapshot.total.shape != (3,):
        found.add("total", f"has shape {list(snapshot.total.shape)}", "give three amounts")
    for problem in (*topology_shape_problems(snapshot), *gpu_shape_problems(snapshot)):
        found.add(*problem)
    for i, peer in enumerate(snapshot.peers):
        if peer.matches.shape != (c,) or peer.matches.dtype != np.bool_:
            found.add(f"peers[{i}].matches", "has a wrong shape or type", f"give {c} booleans")


#: Columns that may be None: nobody uses them.
_OPTIONAL = {
    "topology",
    "required_level",
    "preferred_level",
    "preempt_min_runtime_s",
    "reclaim_min_runtime_s",
    "core_safe",
    "last_resort",
    "stale_since_s",
    "staleness_grace_s",
    "preemption_delay_s",
    "last_eviction_s",
    "checkpoint_s",
    "hold_until_s",
    "moved",
    "user_usage",
    "refusal",
    "leave",
    "budget",
}
#: Per table: field -> dimensions and element type.
_FIELDS: dict[str, dict[str, str]] = {
    "nodes": {
        "allocatable": "RN:i8",
        "rank": "N:i4",
        "ready": "N:b1",
        "cordoned": "N:b1",
        "label_value": "KN:i4",
        "label_number": "KN:i8",
        "taints": "XN:b1",
        "soft_taints": "YN:b1",
        "domain": "DN:i4",
    },
    "queues": {
        "parent": "Q:i4",
        "priority": "Q:i4",
        "created_s": "Q:f8",
        "rank": "Q:i4",
        "quota": "3Q:f8",
        "limit": "3Q:f8",
        "weight": "3Q:f8",
        "usage": "3Q:f8",
        "paused": "Q:b1",
        "preempt_min_runtime_s": "Q:f8",
        "reclaim_min_runtime_s": "Q:f8",
    },
    "gangs": {
        "queue": "G:i4",
        "priority": "G:i4",
        "preemptible": "G:b1",
        "created_s": "G:f8",
        "rank": "G:i4",
        "root": "G:i4",
        "started": "G:b1",
        "last_start_s": "G:f8",
        "core_safe": "G:b1",
        "last_resort": "G:b1",
        "stale_since_s": "G:f8",
        "staleness_grace_s": "G:f8",
        "preemption_delay_s": "G:f8",
        "last_eviction_s": "G:f8",
        "checkpoint_s": "G:f8",
        "hold_until_s": "G:f8",
        "moved": "G:b1",
        "user_usage": "G:f8",
        "refusal": "G:i4",
        "leave": "G:i4",
    },
    "subgroups": {
        "gang": "S:i4",
        "parent": "S:i4",
        "leaf": "S:b1",
        "minimum": "S:i4",
        "rank": "S:i4",
        "topology": "S:i4",
        "required_level": "S:i4",
        "preferred_level": "S:i4",
    },
    "tasks": {
        "gang": "T:i4",
        "leaf": "T:i4",
        "klass": "T:i4",
        "state": "T:i1",
        "node": "T:i4",
        "role": "T:i1",
        "task_priority": "T:i8",
        "created_s": "T:f8",
        "rank": "T:i4",
        "nominated": "T:i4",
        "budget": "T:i4",
    },
    "classes": {"request": "RC:i8", "queue_request": "3C:f8"},
}


def _nodes(snapshot: Snapshot, found: _Findings) -> None:
    nodes = snapshot.nodes
    low = nodes.allocatable < 0
    found.rows("nodes.allocatable", low, nodes.allocatable, "give 0 or more")
    found.distinct("nodes.rank", nodes.rank)
    found.index("nodes.domain", nodes.domain, _MOST_CODES, lowest=-1)
    low = nodes.label_value < -1
    found.rows("nodes.label_value", low, nodes.label_value, "give a code, or -1 for none")
    found.amount("total", snapshot.total, unlimited=False)
    found.finite("now_s", np.array([snapshot.now_s]))


def _queues(snapshot: Snapshot, found: _Findings) -> None:
    queues = snapshot.queues
    found.amount("queues.quota", queues.quota, unlimited=True)
    found.amount("queues.limit", queues.limit, unlimited=True)
    found.finite("queues.weight", queues.weight)
    found.amount("queues.usage", queues.usage, unlimited=False)
    found.finite("queues.created_s", queues.created_s)
    found.distinct("queues.rank", queues.rank)
    for name in ("preempt_min_runtime_s", "reclaim_min_runtime_s"):
        found.seconds(f"queues.{name}", getattr(queues, name), lowest=0.0)
    reserves = snapshot.reserves
    found.index("reserves.queue", np.array([one.queue for one in reserves], np.int64), queues.count)
    if any(one.gpus < 0 or one.size < 1 for one in reserves):
        found.add("reserves", "has a place without GPUs", "give gpus from 0 and a size from 1")
    if len({one.queue for one in reserves}) < len(reserves):
        found.add("reserves", "has two rows of one queue", "give one per queue")
    if found.index("queues.parent", queues.parent, queues.count, lowest=-1):
        late = queues.parent >= np.arange(queues.count)
        mend = "put parents before their children; a cycle of parents must be cut"
        found.rows("queues.parent", late, queues.parent, mend)


def _gangs(snapshot: Snapshot, found: _Findings) -> None:
    gangs, subgroups = snapshot.gangs, snapshot.subgroups
    found.index("gangs.queue", gangs.queue, snapshot.queues.count, lowest=-1)
    found.finite("gangs.created_s", gangs.created_s)
    for name in ("last_start_s", "stale_since_s", "last_eviction_s", "checkpoint_s"):
        found.seconds(f"gangs.{name}", getattr(gangs, name))
    for name in ("staleness_grace_s", "hold_until_s"):
        found.seconds(f"gangs.{name}", getattr(gangs, name))
    for name in ("refusal", "leave"):
        column: Codes | None = getattr(gangs, name)
        if column is not None:
            wrong = ~np.isin(column, _REASONS)
            found.rows(f"gangs.{name}", wrong, column, "give a Reason, 0 for none")
    found.seconds("gangs.preemption_delay_s", gangs.preemption_delay_s, lowest=0.0)
    found.distinct("gangs.rank", gangs.rank)
    if found.index("gangs.root", gangs.root, subgroups.gang.shape[0]):
        root = gangs.root
        other = subgroups.gang[root] != np.arange(gangs.count)
        other |= (subgroups.parent[root] != -1) | subgroups.leaf[root]
        found.rows("gangs.root", other, root, "name the gang's set that has no parent")


def _subgroups(snapshot: Snapshot, found: _Findings) -> None:
    subgroups = snapshot.subgroups
    parent, gang = subgroups.parent, subgroups.gang
    found.index("subgroups.gang", gang, snapshot.gangs.count)
    scattered = np.zeros(gang.shape[0], dtype=np.bool_)
    scattered[1:] = (gang[1:] != gang[:-1]) != (parent[1:] == -1)
    mend = "keep a gang's rows together, its one root first"
    found.rows("subgroups.gang", scattered, gang, mend)
    low = subgroups.minimum < 0
    found.rows("subgroups.minimum", low, subgroups.minimum, "give 0 or more")
    position: _Array = np.arange(len(parent))
    late: Bools = (parent < -1) | (parent >= position)
    found.rows("subgroups.parent", late, parent, "put parents before their children")
    if not late.any():
        child = np.flatnonzero(parent >= 0)
        above = parent[child]
        wrong = np.zeros(parent.shape[0], dtype=np.bool_)
        wrong[child] = (gang[above] != gang[child]) | subgroups.leaf[above]
        found.rows("subgroups.parent", wrong, parent, "name a set of the same gang")
        found.distinct("subgroups.rank", subgroups.rank, np.where(parent < 0, -1 - gang, parent))


def _tasks(snapshot: Snapshot, found: _Findings) -> None:
    tasks, subgroups = snapshot.tasks, snapshot.subgroups
    fine = found.index("tasks.gang", tasks.gang, snapshot.gangs.count, lowest=-1)
    fine &= found.index("tasks.leaf", tasks.leaf, subgroups.gang.shape[0], lowest=-1)
    found.index("tasks.klass", tasks.klass, snapshot.classes.count)
    found.index("tasks.state", tasks.state, len(TaskState))
    found.index("tasks.node", tasks.node, snapshot.nodes.count, lowest=-1)
    found.index("tasks.nominated", tasks.nominated, snapshot.nodes.count, lowest=-1)
    if tasks.budget is not None:
        found.index("tasks.budget", tasks.budget, len(snapshot.disruptions), lowest=-1)
    found.finite("tasks.created_s", tasks.created_s)
    found.distinct("tasks.rank", tasks.rank)
    waiting = (tasks.state == TaskState.PENDING) | (tasks.state == TaskState.GATED)
    placed = waiting & (tasks.node >= 0)
    found.rows("tasks.node", placed, tasks.node, "give -1 while the pod has no place")
    if fine:
        ours = tasks.gang >= 0
        wrong = ours != (tasks.leaf >= 0)
        with_leaf = np.flatnonzero(ours & ~wrong)
        leaf = tasks.leaf[with_leaf]
        wrong[with_leaf] = ~subgroups.leaf[leaf] | (subgroups.gang[leaf] != tasks.gang[with_leaf])
        found.rows("tasks.leaf", wrong, tasks.leaf, "name a leaf of the task's gang")


def _classes(snapshot: Snapshot, found: _Findings) -> None:
    classes: Classes = snapshot.classes
    found.rows("classes.request", classes.request < 0, classes.request, "give 0 or more")
    found.amount("classes.queue_request", classes.queue_request, unlimited=False)
    for i, peer in enumerate(snapshot.peers):
        topology = np.array([peer.topology])
        found.index(f"peers[{i}].topology", topology, snapshot.nodes.domain.shape[0])
    for i, rules in enumerate(classes.rules):
        if rules != _NO_RULES:
            _rules(snapshot, f"classes.rules[{i}]", rules, found)


_NO_RULES = ClassRules()


def _rules(snapshot: Snapshot, field: str, rules: ClassRules, found: _Findings) -> None:
    nodes = snapshot.nodes
    terms = [term for selector in rules.required for term in selector]
    terms += [term for _, term in rules.preferred]
    keys = [requirement.key for term in terms for requirement in term]
    peers = [*rules.affinity, *rules.anti_affinity, *(p for _, p in rules.preferred_affinity)]
    peers += [spread.peer for spread in rules.spread]
    taints = nodes.taints.shape[0] + nodes.soft_taints.shape[0]
    for name, rows, count in (
        ("label keys", keys, nodes.label_value.shape[0]),
        ("tolerates", rules.tolerates, taints),
        ("ports", rules.ports, len(snapshot.port_conflicts)),
        ("peers", peers, len(snapshot.peers)),
    ):
        if rows:
            found.index(f"{field} {name}", np.array(rows), count)
    for spread in rules.spread:
        if spread.max_skew < 1 or spread.min_domains < 1:
            found.add(f"{field}.spread", f"is {spread}", "give a skew and a minimum of at least 1")

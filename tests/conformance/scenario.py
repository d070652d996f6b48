"""A recorded cluster as a snapshot: names become rows here, and row numbers names again.

`World` keeps both sides. The state of every task is passed in beside the case, because a case may
run several rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai_ray.scheduler.gpu.facts import shared_kind
from kai_ray.scheduler.snapshot import (
    USED,
    Gangs,
    Nodes,
    PeerTerm,
    Snapshot,
    SubGroups,
    Tasks,
    TaskState,
)
from tests.conformance import gpus, zones
from tests.conformance.queue_rows import parents_first, queue_arrays
from tests.conformance.requests import gpu_count
from tests.conformance.task_classes import NODE_RESOURCES, ClassTable
from tests.conformance.topologies import TopologyTable, topology_table
from tests.conformance.verdict import Case

INT64_MIN = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class TaskNow:
    """Where one task stands between rounds, in the recorded words."""

    status: str
    node: str | None
    devices: tuple[str, ...] = ()  # labels by which tasks of a node share devices
    zones: zones.Held = ()  # what it holds of the zones of its node


#: Recorded word -> state. Other words (Pipelined, Unknown, Deleted) occupy nothing and ask nothing.
STATES = {
    "Pending": TaskState.PENDING,
    "Gated": TaskState.GATED,
    "Allocated": TaskState.BINDING,
    "Binding": TaskState.BINDING,
    "Bound": TaskState.BOUND,
    "Running": TaskState.RUNNING,
    "Releasing": TaskState.RELEASING,
    "StuckInReleasing": TaskState.STUCK,
    "Succeeded": TaskState.SUCCEEDED,
    "Failed": TaskState.FAILED,
}


@dataclass(frozen=True, slots=True)
class World:
    """A snapshot and the names of its rows."""

    snapshot: Snapshot
    nodes: list[str]
    queues: list[str]
    gangs: list[str]
    tasks: list[str]
    slots: gpus.Slots


def start(case: Case) -> dict[str, TaskNow]:
    """The recorded state of every task. A recorded nomination is not carried into a session."""
    return {
        task["name"]: TaskNow(
            task["status"],
            task["node"],
            tuple(task.get("gpu_groups") or ()),
            zones.recorded(task),
        )
        for job in case["cluster"]["jobs"]
        for task in job["tasks"]
    }


def build(case: Case, now: Mapping[str, TaskNow]) -> World:
    """The case in the given state."""
    cluster, config = case["cluster"], case["config"]
    nodes = sorted(cluster["nodes"], key=lambda node: node["name"])
    recorded_queues = {queue["name"]: queue for queue in cluster["queues"]}
    queues = parents_first(recorded_queues)
    queue_row = {name: i for i, name in enumerate(queues)}
    jobs = cluster["jobs"]
    topologies = topology_table(cluster.get("topologies") or [])
    trees = SubgroupTable(topologies)
    for row, job in enumerate(jobs):
        trees.add(row, job["subgroups"])
    resources = (*NODE_RESOURCES, *gpus.rows(case))
    claims = gpus.Claims(case)
    classes = ClassTable(jobs, nodes, config, resources, claims)
    tasks, names = _tasks(jobs, now, nodes, trees, classes)
    peers, domain = classes.peers(nodes)
    slots = gpus.Slots()
    holds = _holds(now, tasks, names, classes, slots)
    node_names = [node["name"] for node in nodes]
    shared = claims.table(resources, node_names, *_users(jobs, now))
    snapshot = Snapshot(
        now_s=0.0,
        seed=0,
        resources=resources,
        nodes=_nodes(case, nodes, classes, domain, resources),
        queues=queue_arrays(recorded_queues, queues, quota_field="quota"),
        gangs=_gangs(jobs, queue_row, trees),
        subgroups=trees.arrays(),
        tasks=tasks,
        classes=classes.arrays(),
        peers=tuple(PeerTerm(topology, matches) for topology, matches in peers),
        gpus=gpus.table(case, nodes, classes.asks, holds, shared),
        topologies=topologies.arrays(nodes),
        zones=zones.table(
            case, nodes, resources, classes.kinds, tasks, [now[name].zones for name in names]
        ),
        total=_total(nodes),
    )
    return World(snapshot, node_names, queues, [job["name"] for job in jobs], names, slots)


def _holds(
    now: Mapping[str, TaskNow],
    tasks: Tasks,
    names: list[str],
    classes: ClassTable,
    slots: gpus.Slots,
) -> list[tuple[int, int]]:
    """(task row, slot) of every device that tasks on a node share."""
    asks = classes.asks
    return [
        (row, slot)
        for row, name in enumerate(names)
        if tasks.node[row] >= 0 and shared_kind(asks[int(tasks.klass[row])][0])
        for slot in slots.put(now[name].node or "", now[name].devices)
    ]


def _users(
    jobs: list[dict[str, Any]], now: Mapping[str, TaskNow]
) -> tuple[dict[str, list[str]], set[str]]:
    """Nodes of the tasks that hold each claim, and the tasks without a place."""
    users: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for task in (task for job in jobs for task in job["tasks"]):
        at = now[task["name"]]
        if STATES.get(at.status) not in USED or at.node is None:
            waiting.add(task["name"])
            continue
        for claim in task["dra_claims"] or ():
            users.setdefault(claim, []).append(at.node)
    return users, waiting


def _total(nodes: list[dict[str, Any]]) -> np.ndarray:
    """[3] millicores, bytes, GPUs of all nodes, devices of resource slices and slices included."""
    held = [node["allocatable"] for node in nodes]
    return np.array(
        [
            sum(a["cpu_milli"] for a in held),
            sum(a["memory_bytes"] for a in held),
            sum(gpu_count(node) for node in nodes),
        ],
        dtype=np.float64,
    )


def _nodes(
    case: Case,
    nodes: list[dict[str, Any]],
    classes: ClassTable,
    domain: np.ndarray,
    resources: tuple[str, ...],
) -> Nodes:
    count = len(nodes)
    held = [node["allocatable"] for node in nodes]
    rows = [[int(a[key]) for a in held] for key in ("cpu_milli", "memory_bytes", "gpus", "pods")]
    rows[2] = [gpus_ + node["dra_gpus"] for gpus_, node in zip(rows[2], nodes, strict=True)]
    rows += [[gpus.offered(case, node, row) for node in nodes] for row in resources[len(rows) :]]
    value, number = classes.label_rows(nodes)
    return Nodes(
        allocatable=np.array(rows, dtype=np.int64).reshape(len(rows), count),
        rank=np.arange(count, dtype=np.int32),  # nodes are sorted by name
        ready=np.ones(count, dtype=bool),
        cordoned=np.zeros(count, dtype=bool),
        label_value=value,
        label_number=number,
        taints=np.zeros((0, count), dtype=bool),
        soft_taints=np.zeros((0, count), dtype=bool),
        domain=domain,
    )


def _gangs(jobs: list[dict[str, Any]], queue_row: Mapping[str, int], trees: SubgroupTable) -> Gangs:
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i]["name"], jobs[i]["namespace"] or "", i))
    rank = np.empty(len(jobs), dtype=np.int32)
    rank[order] = np.arange(len(jobs))
    started = [job["last_start_age_seconds"] for job in jobs]
    return Gangs(
        queue=np.array([queue_row.get(job["queue"], -1) for job in jobs], dtype=np.int32),
        priority=np.array([job["priority"] for job in jobs], dtype=np.int32),
        preemptible=np.array([job["preemptible"] for job in jobs], dtype=bool),
        created_s=np.array([-float(job["created_age_seconds"] or 0) for job in jobs]),
        rank=rank,
        root=np.array(trees.root, dtype=np.int32),
        started=np.array([age is not None for age in started], dtype=bool),
        last_start_s=_ago([job["last_start_age_seconds"] for job in jobs]),
        stale_since_s=_ago([job["stale_seconds"] for job in jobs]),
        staleness_grace_s=_stated([job.get("staleness_grace_period_seconds") for job in jobs]),
        preemption_delay_s=_stated([job.get("preemption_delay_seconds") for job in jobs]),
    )


def _ago(ages: list[float | None]) -> np.ndarray:
    """Times before now, which is 0; NaN where none is recorded."""
    return -_stated(ages)


def _stated(seconds: list[float | None]) -> np.ndarray:
    return np.array([np.nan if s is None else float(s) for s in seconds])


class SubgroupTable:
    """The subgroup trees of all jobs, one after the other."""

    def __init__(self, topologies: TopologyTable) -> None:
        self._topologies = topologies
        self.root: list[int] = []
        self.leaves: list[dict[str, int]] = []  # per job: name of a leaf -> its row
        self._rows: list[tuple[int, int, bool, int, int, int, int, int]] = []

    def add(self, job: int, tree: dict[str, Any]) -> None:
        """Appends a job's tree, parents before children."""
        self.root.append(len(self._rows))
        self.leaves.append({})
        self._add_set(job, tree, parent=-1, rank=0)

    def _add_set(self, job: int, tree: dict[str, Any], parent: int, rank: int) -> None:
        row = len(self._rows)
        children = [(child["name"], True, child) for child in tree["pod_sets"]]
        children += [(child["name"], False, child) for child in tree["groups"]]
        children.sort(key=lambda child: child[0])
        minimum = tree.get("min_subgroup")
        minimum = len(children) if minimum is None else minimum
        bond = self._topologies.constraint(tree.get("topology_constraint"))
        self._rows.append((job, parent, False, minimum, rank, *bond))
        for place, (name, leaf, child) in enumerate(children):
            if leaf:
                self.leaves[job][name] = len(self._rows)
                bond = self._topologies.constraint(child.get("topology_constraint"))
                self._rows.append((job, row, True, child["min_available"], place, *bond))
            else:
                self._add_set(job, child, row, place)

    def arrays(self) -> SubGroups:
        gang, parent, leaf, minimum, rank, topology, required, preferred = (
            zip(*self._rows, strict=True) if self._rows else ((),) * 8
        )
        return SubGroups(
            gang=np.array(gang, dtype=np.int32),
            parent=np.array(parent, dtype=np.int32),
            leaf=np.array(leaf, dtype=bool),
            minimum=np.array(minimum, dtype=np.int32),
            rank=np.array(rank, dtype=np.int32),
            topology=np.array(topology, dtype=np.int32),
            required_level=np.array(required, dtype=np.int32),
            preferred_level=np.array(preferred, dtype=np.int32),
        )


def _tasks(
    jobs: list[dict[str, Any]],
    now: Mapping[str, TaskNow],
    nodes: list[dict[str, Any]],
    trees: SubgroupTable,
    classes: ClassTable,
) -> tuple[Tasks, list[str]]:
    """Every task that occupies or asks for something, and the names of the rows.

    A task whose subgroup its job does not have is no part of the job: it only occupies room.
    """
    rows: list[tuple[int, int, int, int, int, int]] = []
    names: list[str] = []
    node_row = {node["name"]: i for i, node in enumerate(nodes)}
    for j, job in enumerate(jobs):
        for task in job["tasks"]:
            at = now[task["name"]]
            state = STATES.get(at.status)
            leaf = trees.leaves[j].get(task["subgroup"] or "default", -1)
            waiting = state in (TaskState.PENDING, TaskState.GATED)
            node = -1 if waiting else node_row.get(at.node or "", -1)
            if state is None or (leaf < 0 and node < 0):
                continue
            gang = j if leaf >= 0 else -1
            klass = classes.row(job, task)
            priority = task["order_priority"]
            priority = INT64_MIN if priority is None else int(priority)
            rows.append((gang, leaf, klass, int(state), node, priority))
            names.append(task["name"])
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 6).T
    rank = np.empty(len(names), dtype=np.int32)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return Tasks(
        gang=table[0].astype(np.int32),
        leaf=table[1].astype(np.int32),
        klass=table[2].astype(np.int32),
        state=table[3].astype(np.int8),
        node=table[4].astype(np.int32),
        role=np.ones(len(names), dtype=np.int8),
        task_priority=table[5],
        created_s=np.zeros(len(names)),
        rank=rank,
        nominated=np.full(len(names), -1, dtype=np.int32),
    ), names

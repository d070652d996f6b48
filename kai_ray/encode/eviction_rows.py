"""Lays what is said about giving way over the arrays: few rows, so they are written one by one."""

from __future__ import annotations

import dataclasses

import numpy as np

from kai_ray.cluster.port import Key
from kai_ray.scheduler.snapshot import ALLOCATED, Tasks, TaskState

from .budgets import BudgetTable
from .encoded import Encoded
from .eviction_facts import EvictionTable

_HOLDS_A_PLACE = np.array([int(s) for s in ALLOCATED])


def with_evictions(encoded: Encoded, table: EvictionTable, budgets: BudgetTable) -> Encoded:
    """The same picture with holds, delays, budgets and gangs that are on their way out."""
    if not (table.facts or table.leaving or budgets.rows):
        return encoded
    snapshot, names = encoded.snapshot, encoded.names
    row_of = {key: row for row, key in enumerate(names.gangs)}
    gangs = dataclasses.replace(snapshot.gangs, **table.columns(row_of, snapshot.gangs.created_s))
    tasks = _nominated(_leaving(snapshot.tasks, table, row_of), encoded, table, row_of)
    budget, disruptions = budgets.columns(tasks, names)
    if budget is not None:
        tasks = dataclasses.replace(tasks, budget=budget)
    snapshot = dataclasses.replace(snapshot, gangs=gangs, tasks=tasks, disruptions=disruptions)
    return dataclasses.replace(encoded, snapshot=snapshot)


def _leaving(tasks: Tasks, table: EvictionTable, row_of: dict[Key, int]) -> Tasks:
    """Gangs that are told to go: their places are about to be free, nothing more of them starts."""
    rows = [row_of[key] for key in table.leaving if key in row_of]
    if not rows:
        return tasks
    mine, state = np.isin(tasks.gang, rows), tasks.state.copy()
    state[mine & np.isin(state, _HOLDS_A_PLACE)] = TaskState.RELEASING
    state[mine & (state == TaskState.PENDING)] = TaskState.GATED
    return dataclasses.replace(tasks, state=state)


def _nominated(
    tasks: Tasks, encoded: Encoded, table: EvictionTable, row_of: dict[Key, int]
) -> Tasks:
    holders = [(key, f.hold) for key, f in table.facts.items() if f.hold and key in row_of]
    if not holders:
        return tasks
    nominated, names = tasks.nominated.copy(), encoded.names
    nodes = {name: row for row, name in enumerate(names.nodes)}
    for key, hold in holders:
        for pod, node in hold.nodes.items():
            task = names.row_of(Key(key.namespace, pod))
            if task >= 0 and tasks.gang[task] == row_of[key] and node in nodes:
                nominated[task] = nodes[node]
    return dataclasses.replace(tasks, nominated=nominated)

"""Lays what is said about giving way over the arrays: few rows, so they are written one by one."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kai_ray.cluster.port import Key
from kai_ray.scheduler.snapshot import (
    ALLOCATED,
    QUEUE_RESOURCES,
    Bytes,
    Floats,
    Ints,
    Tasks,
    TaskState,
)

from .budgets import BudgetTable
from .encoded import Encoded
from .eviction_facts import TOLD, EvictionTable

_HOLDS_A_PLACE = np.array([int(s) for s in ALLOCATED])


def with_evictions(encoded: Encoded, table: EvictionTable, budgets: BudgetTable) -> Encoded:
    """The same picture with holds, delays, budgets and gangs that are on their way out."""
    if not (table.facts or table.leaving or table.leaving_pods or budgets.rows):
        return encoded
    snapshot, names = encoded.snapshot, encoded.names
    row_of = {key: row for row, key in enumerate(names.gangs)}
    gangs = dataclasses.replace(snapshot.gangs, **table.columns(row_of, snapshot.gangs.created_s))
    tasks, told = _leaving(snapshot.tasks, encoded, table, row_of)
    tasks = _nominated(tasks, encoded, table, row_of)
    budget, disruptions = budgets.columns(tasks, names)
    if budget is not None:
        tasks = dataclasses.replace(tasks, budget=budget)
    tasks, kept, coming = _moved(tasks, encoded, table, row_of)
    snapshot = dataclasses.replace(
        snapshot, gangs=gangs, tasks=tasks, disruptions=disruptions, kept=kept, coming=coming
    )
    return dataclasses.replace(encoded, snapshot=snapshot, told=told)


def _leaving(
    tasks: Tasks, encoded: Encoded, table: EvictionTable, row_of: dict[Key, int]
) -> tuple[Tasks, tuple[Ints, Bytes]]:
    """What is told to go: its places are about to be free, and of whole gangs nothing starts.

    Also the pods among them that run on until a deadline, and their states.
    """
    rows = [row_of[key] for key in table.leaving if key in row_of]
    named = [
        encoded.names.row_of(Key(key.namespace, pod))
        for key, pods in table.leaving_pods.items()
        if key in row_of
        for pod in pods
    ]
    some = [task for task in named if task >= 0 and tasks.state[task] in _HOLDS_A_PLACE]
    if not rows and not some:
        return tasks, encoded.told
    mine, state = np.isin(tasks.gang, rows), tasks.state.copy()
    noticed = [row_of[k] for k, on in table.leaving.items() if k in row_of and on == {TOLD}]
    runs_on = np.isin(tasks.gang, noticed) & np.isin(state, _HOLDS_A_PLACE)
    runs_on[some] = True
    runs_on &= ~np.isin(tasks.gang, [row for row in rows if row not in noticed])
    told = np.flatnonzero(runs_on)
    state[some] = TaskState.RELEASING
    state[mine & np.isin(state, _HOLDS_A_PLACE)] = TaskState.RELEASING
    state[mine & (state == TaskState.PENDING)] = TaskState.GATED
    return dataclasses.replace(tasks, state=state), (told, tasks.state[told])


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


def _moved(
    tasks: Tasks, encoded: Encoded, table: EvictionTable, row_of: dict[Key, int]
) -> tuple[Tasks, Ints | None, Floats | None]:
    """Pods that were evicted to be made again elsewhere: those that are there again are nominated,
    for the others the room is kept on the node and in the queue."""
    movers = [(row_of[k], f.hold) for k, f in table.facts.items() if f.hold and k in row_of]
    movers = [(gang, hold) for gang, hold in movers if hold.moves]
    if not movers:
        return tasks, None, None
    snapshot, names = encoded.snapshot, encoded.names
    nodes = {name: row for row, name in enumerate(names.nodes)}
    resources = {name: row for row, name in enumerate(snapshot.resources)}
    kept = np.zeros_like(snapshot.nodes.allocatable)
    coming = np.zeros((QUEUE_RESOURCES, snapshot.gangs.count))
    nominated = tasks.nominated.copy()
    for gang, hold in movers:
        again = made_again(tasks, gang, hold.made_s)
        for at, (node, request, charge) in enumerate(hold.moves):
            row = nodes.get(node, -1)
            if at < len(again):
                if row >= 0 and tasks.state[again[at]] == TaskState.PENDING:
                    nominated[again[at]] = row
                continue
            coming[:, gang] += charge
            if row < 0:
                continue
            for name, amount in request:
                if name in resources:
                    kept[resources[name], row] += amount
    return dataclasses.replace(tasks, nominated=nominated), kept, coming


def made_again(tasks: Tasks, gang: int, made_s: float) -> list[int]:
    """Rows of a gang's pods that were made since (times of objects are whole seconds)."""
    mine = (tasks.gang == gang) & (tasks.created_s >= math.floor(made_s))
    mine &= ~np.isin(tasks.state, (TaskState.RELEASING, TaskState.STUCK))
    return np.flatnonzero(mine).tolist()

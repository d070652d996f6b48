"""Who leaves by a Plan: pods of one gang for one reason, and whether the whole gang has to go.

A gang whose workload can be ended and begun again as a whole never runs in part: where what leaves
cuts into its minimum, or takes the head of a Ray cluster, the rest goes with it. Surplus above the
minimum leaves on its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kai_ray.cluster.port import Key, Object
from kai_ray.encode import Encoded
from kai_ray.scheduler import Plan
from kai_ray.scheduler.evictions import Eviction, evictions
from kai_ray.scheduler.explain import NameTable
from kai_ray.scheduler.gang_state import satisfied
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import ALLOCATED, Bools, TaskState

_HEAD = 0  # the role of a master, launcher or Ray head


class PodRef(NamedTuple):
    """A pod and which incarnation of it: a namesake made since is not meant."""

    key: Key
    uid: str


@dataclass(slots=True)
class Victim:
    """Pods of one gang that leave for one reason."""

    group: Key
    gang: int  # row of the snapshot
    reason: Reason
    beneficiary: Key | None
    message: str
    tasks: list[int] = field(default_factory=list[int])
    whole: bool = False  # nothing of the gang stays
    beside: list[int] = field(default_factory=list[int])
    """Of `tasks`, those that could have stayed but for the gang."""
    pods: list[PodRef] = field(default_factory=list[PodRef])


def victims_of(
    encoded: Encoded, plan: Plan, words: NameTable, as_a_whole: Callable[[Key], bool]
) -> list[Victim]:
    """`as_a_whole` says of a gang whether its workload can be ended and begun again."""
    found: dict[tuple[int, int, int], Victim] = {}
    for one in evictions(plan):
        gang = int(encoded.snapshot.tasks.gang[one.task])
        slot = (gang, one.reason, one.beneficiary)
        if slot not in found:
            found[slot] = _victim(encoded, gang, one, words)
        found[slot].tasks.append(one.task)
    victims = [v for v in found.values() if not _spared(encoded, v)]
    _complete(encoded, victims, as_a_whole)
    for victim in victims:
        victim.pods = list(_pods(encoded, victim.tasks))
    return victims


def _victim(encoded: Encoded, gang: int, one: Eviction, words: NameTable) -> Victim:
    queue = encoded.snapshot.gangs.queue[gang]
    name = encoded.names.queue(int(queue)) if queue >= 0 else ""
    beneficiary = encoded.names.gang(one.beneficiary) if one.beneficiary >= 0 else None
    key = encoded.names.gang(gang)
    return Victim(key, gang, one.reason, beneficiary, one.words(name, words))


def _spared(encoded: Encoded, victim: Victim) -> bool:
    """A gang of bare pods is not sent away for being too few: nobody would make it anew."""
    return victim.reason is Reason.STALE_GANG and bool(encoded.bare[victim.gang])


def _complete(encoded: Encoded, victims: list[Victim], as_a_whole: Callable[[Key], bool]) -> None:
    tasks = encoded.snapshot.tasks
    there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
    held = np.bincount(tasks.gang[there], minlength=encoded.snapshot.gangs.count)
    leaves: dict[int, list[int]] = {}
    for v in victims:
        leaves.setdefault(v.gang, []).extend(v.tasks)
    torn = _torn(encoded, leaves) if any(len(t) < held[g] for g, t in leaves.items()) else None
    for v in victims:
        gone = leaves[v.gang]
        if len(gone) < held[v.gang] and torn is not None and torn[v.gang] and as_a_whole(v.group):
            rest = np.flatnonzero(there & (tasks.gang == v.gang))
            v.beside = np.setdiff1d(rest, gone).tolist()
            v.tasks += v.beside
            gone += v.beside
        v.whole = len(gone) >= held[v.gang]


def _torn(encoded: Encoded, leaves: dict[int, list[int]]) -> Bools:
    """[G] gangs that would be left without their head, or with less than their minimum."""
    snapshot = encoded.snapshot
    gone = np.array([task for tasks in leaves.values() for task in tasks], dtype=np.int64)
    state = snapshot.tasks.state.copy()
    state[gone] = TaskState.RELEASING
    after = dataclasses.replace(snapshot.tasks, state=state)
    torn = ~satisfied(snapshot.subgroups, snapshot.gangs.root, after)
    heads = gone[snapshot.tasks.role[gone] == _HEAD]
    torn[snapshot.tasks.gang[heads]] = True
    return torn


def _pods(encoded: Encoded, tasks: Iterable[int]) -> Iterable[PodRef]:
    for task in tasks:
        pod = encoded.names.pod_object(task)
        yield PodRef(encoded.names.pod(task), uid_of(pod) if pod is not None else "")


def uid_of(obj: Object) -> str:
    return obj["metadata"].get("uid") or ""

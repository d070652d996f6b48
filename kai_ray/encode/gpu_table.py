"""Nodes, classes and pods as the core's table of GPUs, and devices back to group names.

A *group* is KAI's name for a device that pods share: a label on each of them. Devices of a node are
numbered in the order of their groups' names; a number beyond those is a device that nobody shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.gpu.facts import SHARED, GpuKind, Gpus, MigMode
from kai_ray.scheduler.snapshot import Tasks

from . import gpu_asks
from .node_rows import NodeRow
from .reservations import groups_of_labels
from .shape import Shape

_MIB = 2**20
_STRATEGIES = {"single": MigMode.SINGLE, "mixed": MigMode.MIXED}


class Grants(NamedTuple):
    """Groups of a pod whose bind has been decided and is not seen yet."""

    uid: str  # "" = whichever pod has the name
    groups: tuple[str, ...]


class GpuArrays(NamedTuple):
    gpus: Gpus | None
    groups: dict[int, list[str]]  # node row -> group of each slot


NOTHING = GpuArrays(None, {})


def needed(shapes: Sequence[Shape]) -> bool:
    """Whether anybody asks for other than whole GPUs, or for devices by claims."""
    plain = (GpuKind.NONE, GpuKind.WHOLE)
    return any(shape.gpu.kind not in plain or shape.devices for shape in shapes)


def card_mib(labels: Mapping[str, str]) -> int:
    """MiB of one card, floored to a multiple of 100; 0 where the label is missing or no number.

    Some device plugins write bytes: what is too large for MiB is taken as such (KAI 0.17).
    """
    text = labels.get(names.GPU_CARD_MEMORY, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        return 0
    found = int(text)
    return whole_hundreds(found // _MIB if found >= _MIB else found)


def whole_hundreds(mib: int) -> int:
    """An amount of MiB as cards are counted."""
    return mib // 100 * 100


def mig_mode(row: NodeRow) -> MigMode:
    enabled = row.labels.get(names.MIG_ENABLED, "").lower()
    if enabled in ("true", "1", "t"):
        parted = True
    elif enabled in ("false", "0", "f"):
        parted = False
    else:
        parted = any(name.startswith(names.MIG_PREFIX) for name in row.allocatable)
    if not parted:
        return MigMode.NONE
    return _STRATEGIES.get(row.labels.get(names.MIG_STRATEGY, ""), MigMode.OPEN)


def groups_of(pod: Object) -> tuple[str, ...]:
    """The devices that a pod says it shares."""
    return groups_of_labels(pod["metadata"].get("labels") or {})


def told_devices(pod: Object) -> dict[str, str]:
    """Group -> UUID of the cards that a pod was told; none until it was."""
    text = (pod["metadata"].get("annotations") or {}).get(names.GPU_DEVICES)
    if not text:
        return {}
    devices, groups = str(text).split(","), groups_of(pod)
    if len(devices) != len(groups):
        return {}
    return {g: d.rpartition("=")[2] for g, d in zip(groups, devices, strict=True)}


def build(
    rows: Sequence[NodeRow],
    shapes: Sequence[Shape],
    tasks: Tasks,
    usable: NDArray[np.bool_],
    pod_at: Callable[[int], tuple[Key, Object | None]],
    grants: Mapping[Key, Grants],
) -> GpuArrays:
    """`pod_at(row)` names the pod of a task row; `usable` [N] are nodes that quotas count."""
    if not needed(shapes) and not any(row.bad for row in rows):
        return NOTHING
    asks = [shape.gpu for shape in shapes]
    memory = np.array([card_mib(row.labels) for row in rows], dtype=np.int64)
    known = memory[memory > 100]
    kind = np.array([ask.kind for ask in asks], dtype=np.int8)
    holds, groups, closed = _holds(rows, tasks, kind, pod_at, grants)
    pairs = np.array(holds, dtype=np.int32).reshape(-1, 2).T.copy()
    gpus = Gpus(
        memory=memory,
        mig=np.array([mig_mode(row) for row in rows], dtype=np.int8),
        dra=np.zeros(len(rows), dtype=np.bool_),
        kind=kind,
        devices=np.array([ask.devices for ask in asks], dtype=np.int32),
        portion=np.array([ask.portion for ask in asks], dtype=np.float64),
        mib=np.array([ask.mib for ask in asks], dtype=np.int64),
        hold_task=pairs[0],
        hold_slot=pairs[1],
        least_mib=int(known.min(initial=2**62)) if known.size else 0,
        most_mib=int(known.max(initial=0)),
        mig_share=np.array([gpu_asks.cards(shape.request) for shape in shapes], dtype=np.float64),
        mig_excess=sum(
            gpu_asks.slices(row.allocatable) - gpu_asks.cards(row.allocatable)
            for row, counts in zip(rows, usable.tolist(), strict=True)
            if counts
        ),
        closed=closed,
    )
    return GpuArrays(gpus, groups)


def _holds(
    rows: Sequence[NodeRow],
    tasks: Tasks,
    kind: NDArray[np.int8],
    pod_at: Callable[[int], tuple[Key, Object | None]],
    grants: Mapping[Key, Grants],
) -> tuple[list[tuple[int, int]], dict[int, list[str]], tuple[tuple[int, int], ...]]:
    """(task row, slot) of each shared device; the groups of each node in the order of slots; and
    (node row, slot) of devices that are set aside."""
    sharing = np.isin(kind[tasks.klass], [int(k) for k in SHARED]) & (tasks.node >= 0)
    held: list[tuple[int, int, str]] = []
    for row in np.flatnonzero(sharing).tolist():
        key, pod = pod_at(row)
        found = groups_of(pod) if pod is not None else ()
        if not found and pod is not None:
            granted = grants.get(key)
            uid = pod["metadata"].get("uid") or ""
            if granted is not None and granted.uid in ("", uid):
                found = granted.groups
        held += [(row, int(tasks.node[row]), group) for group in found]
    shared = {(node, group) for _, node, group in held}
    aside = {(node, name) for node, row in enumerate(rows) for name in _aside(row, node, shared)}
    groups: dict[int, list[str]] = {}
    for node, group in sorted(shared | aside):
        groups.setdefault(node, []).append(group)
    slot = {(n, g): i for n, of in groups.items() for i, g in enumerate(of)}
    holds = [(row, slot[node, group]) for row, node, group in held]
    return holds, groups, tuple((node, slot[node, name]) for node, name in sorted(aside))


def _aside(row: NodeRow, node: int, shared: set[tuple[int, str]]) -> list[str]:
    """Devices of a node that nobody more may have, but for those its kubelet hides already."""
    others = [name for name in row.bad if (node, name) not in shared]
    return [name for name in row.bad if (node, name) in shared] + others[row.lost :]

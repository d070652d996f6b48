"""GPUs of slices that pods may share: each is kept by a claim, as any device is taken by one.

Only where nothing is left open: all of the node's devices of the class sit in it and say their
UUID, and no device plugin hands out GPUs there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster.port import Key
from kai_ray.encode.gpu_table import whole_hundreds
from kai_ray.encode.node_rows import NodeTable
from kai_ray.scheduler.gpu.facts import Gpus
from kai_ray.scheduler.snapshot import USED, Tasks

from .asks import Option, Predicate
from .slices import Device
from .supply import Supply

if TYPE_CHECKING:
    from .table import DeviceTable

#: What a card that is shared takes of what claims may be given.
SHARE = Option("", Predicate(names.GPU_DEVICE_CLASS), 1)
_USED = [int(s) for s in USED]


class NodeCards(NamedTuple):
    """The GPUs of one node."""

    rows: dict[str, int]  # UUID -> row of the supply
    mib: int  # of the smallest, floored to a multiple of 100; 0 = not known


def node_cards(supply: Supply, nodes: NodeTable) -> dict[str, NodeCards]:
    """By the name of each node whose GPUs may be shared through claims."""
    fits = supply.fits(SHARE.predicate)
    if any(fits[d] for d in supply.remote):
        return {}  # one that is promised here might be taken from elsewhere
    found: dict[str, NodeCards] = {}
    for n, node in enumerate(supply.nodes):
        mine = [d for d in supply.local(n) if fits[d]]
        offered = nodes.rows[node.name].allocatable
        if not mine or any(offered.get(name) for name in GPU_RESOURCES):
            continue
        rows = {uuid: d for d in mine if (uuid := uuid_of(supply.devices[d]))}
        if len(rows) == len(mine):
            found[node.name] = NodeCards(rows, min(_mib(supply.devices[d]) for d in mine))
    return found


def uuid_of(device: Device) -> str:
    """By which programs know a GPU; "" where its driver does not say."""
    found = device.value((device.id.driver, "uuid"))
    return found if isinstance(found, str) else ""


def _mib(device: Device) -> int:
    return whole_hundreds(int(device.capacity.get((device.id.driver, "memory"), 0)) // 2**20)


def slots_in_use(gpus: Gpus | None, tasks: Tasks) -> Iterable[tuple[int, int, int]]:
    """(node row, slot, task row) of each part of a card that a pod on a node holds."""
    if gpus is None:
        return []
    there = np.isin(tasks.state[gpus.hold_task], _USED) & (tasks.node[gpus.hold_task] >= 0)
    task, slot = gpus.hold_task[there], gpus.hold_slot[there]
    return zip(tasks.node[task].tolist(), slot.tolist(), task.tolist(), strict=True)


def kept_cards(table: DeviceTable, supply: Supply, namespace: str) -> dict[Key, tuple[int, str]]:
    """(node row, group) of each card that a claim keeps for those who share it."""
    found: dict[Key, tuple[int, str]] = {}
    for key, row in table.claims.rows.items():
        if row.group and row.held is not None and key.namespace == namespace:
            d = next((supply.row_of[i] for i in row.held.devices if i in supply.row_of), -1)
            if d >= 0 and supply.node[d] >= 0:
                found[key] = int(supply.node[d]), row.group
    return found

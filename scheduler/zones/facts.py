"""What a snapshot says about the cells inside nodes: NUMA zones, or groups of linked GPUs.

A zone has its own share of some of the node's resources: CPUs, memory, GPUs, network cards. Where
the kubelet's topology manager aligns pods, a pod that fits the node but no zone is refused there;
so the zones are looked at before the node is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class ZonePolicy(IntEnum):
    """How strictly pods are aligned, the laxest first. Numbers are stable: recordings hold them."""

    NONE = 0  # not at all
    BEST_EFFORT = 1  # few zones are better
    RESTRICTED = 2  # as few zones as the amounts allow, the same few for all resources
    SINGLE = 3  # one zone for everything


@dataclass(frozen=True, slots=True)
class Unit:
    """What is aligned together: a pod, or one of its containers."""

    want: tuple[int, ...]  # [A] amounts; 0 = not aligned
    serial: bool = False  # an ordinary init container: it gives its zones back


@dataclass(frozen=True, slots=True)
class Zones:
    """Columns beside Nodes, Classes and Tasks. `A` aligned resources, at most `Z` zones a node.

    A node without zones has `count` 0; entries beyond a node's zones are 0. Amounts are in the
    units of the resource row.
    """

    rows: tuple[int, ...]  # [A] rows of Snapshot.resources
    count: NDArray[np.int32]  # [N] zones of the node
    policy: NDArray[np.int8]  # [N] ZonePolicy of the kubelet
    per_container: NDArray[np.bool_]  # [N] containers are aligned one by one
    allocatable: NDArray[np.int64]  # [Z, A, N]
    available: NDArray[np.int64]  # [Z, A, N] less what pods that stay there hold
    aware: NDArray[np.bool_]  # [A, N] the node tells the resource by zone
    pod_unit: tuple[Unit | None, ...]  # [C] for nodes that align pods; None = never aligned
    units: tuple[tuple[Unit, ...], ...]  # [C] for nodes that align containers
    own_policy: NDArray[np.int8]  # [C] what the class asks itself; NONE = as the node says
    hold_task: NDArray[np.int32]  # [H] a pod on a node that holds ...
    hold_zone: NDArray[np.int32]  # [H] ... of this zone ...
    hold_row: NDArray[np.int32]  # [H] ... of this aligned resource ...
    hold_amount: NDArray[np.int64]  # [H] ... so much

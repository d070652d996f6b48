"""What a snapshot says about GPUs beyond whole ones. A cluster that shares nothing has none of it.

A *slot* is a device of a node by number: which physical card it is, only the world knows. Whole-GPU
pods hold no slot, the node's device plugin gives them any card that nobody shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

#: Memory (MiB) that a card counts as where the node does not say: only parts of it matter then.
UNKNOWN_CARD = 100
#: Pods that may hold one ResourceClaim (Kubernetes resource.k8s.io).
MOST_CONSUMERS = 256


class GpuKind(IntEnum):
    """How a class asks for GPUs. Numbers are stable: recordings hold them."""

    NONE = 0
    WHOLE = 1
    FRACTION = 2  # a part of each of `devices` cards
    MEMORY = 3  # MiB of each of `devices` cards
    MIG = 4  # profiles, as resource rows of their own
    DRA = 5  # whole devices by resource claims
    LEGACY_MIG = 6  # profiles by annotation: never placed


#: Kinds that hold device slots.
SHARED = (GpuKind.FRACTION, GpuKind.MEMORY)


class MigMode(IntEnum):
    """How a node's cards are partitioned (label nvidia.com/mig.strategy)."""

    NONE = 0  # not at all
    SINGLE = 1  # each slice is offered as a whole GPU
    MIXED = 2  # profiles only
    OPEN = 3  # partitioned, without a stated strategy


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that pods name: its devices are charged once, whoever shares them.

    Claims made from a template belong to one pod: they are part of its class's request.
    """

    charge: tuple[tuple[int, int], ...]  # (resource row, amount) where it is allocated
    node: int = -1  # row of Nodes where it is allocated; -1 = not yet
    free: int = MOST_CONSUMERS  # pods that may still come to share it
    rank: int = 0  # name order


@dataclass(frozen=True, slots=True)
class Gpus:
    """Columns beside Nodes, Classes and Tasks. Memory is in MiB of one card."""

    memory: NDArray[np.int64]  # [N] of each card, floored to a multiple of 100; 0 = not known
    mig: NDArray[np.int8]  # [N] MigMode
    dra: NDArray[np.bool_]  # [N] the GPUs are offered by resource slices
    kind: NDArray[np.int8]  # [C] GpuKind
    devices: NDArray[np.int32]  # [C] distinct cards of one node, for the shared kinds
    portion: NDArray[np.float64]  # [C] of each card, for FRACTION
    mib: NDArray[np.int64]  # [C] of each card, for MEMORY
    hold_task: NDArray[np.int32]  # [H] a pod on a node that holds ...
    hold_slot: NDArray[np.int32]  # [H] ... a part of this device of its node
    least_mib: int = 0  # smallest known card: what a MEMORY request counts by; 0 = none known
    most_mib: int = 0  # largest known card: what a queue's limit counts it by
    claims: tuple[Claim, ...] = ()  # those that ClassRules.claims index
    mig_share: NDArray[np.float64] | None = None
    """[C] cards that the class's MIG profiles are worth; None = as `queue_request` counts them."""
    mig_excess: float = 0.0  # by how much Snapshot.total counts slices above cards
    closed: tuple[tuple[int, int], ...] = ()
    """(row of Nodes, slot) of devices that fail: who shares one stays, nobody else gets any."""
    by_claim: NDArray[np.bool_] | None = None
    """[N] nodes of `dra` whose devices may be shared all the same, each through a claim."""
    share_rows: tuple[int, ...] = ()
    """Resource rows of which a device of those nodes takes one each while it is shared."""


def shared_kind(kind: int) -> bool:
    """Whether a class of this kind holds device slots."""
    return kind in SHARED

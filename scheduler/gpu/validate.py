"""Is the table of GPUs well formed: shapes, ranges, and shares that a card can hold.

A problem is (field, what is wrong, what mends it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..snapshot import Bools, Snapshot
from .facts import GpuKind, Gpus, MigMode, shared_kind

Problem = tuple[str, str, str]

#: Field -> dimension letter and element type.
_FIELDS = {
    "memory": ("N", np.int64),
    "mig": ("N", np.int8),
    "dra": ("N", np.bool_),
    "kind": ("C", np.int8),
    "devices": ("C", np.int32),
    "portion": ("C", np.float64),
    "mib": ("C", np.int64),
    "hold_task": ("H", np.int32),
    "hold_slot": ("H", np.int32),
}
#: Slots beyond this are not devices of any node.
MOST_SLOTS = 1024


def gpu_shape_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Columns of the wrong length or type."""
    gpus = snapshot.gpus
    if gpus is None:
        return
    size = {"N": snapshot.nodes.count, "C": snapshot.classes.count, "H": gpus.hold_task.shape[0]}
    for field, (letter, kind) in _FIELDS.items():
        column: NDArray[Any] = getattr(gpus, field)
        if column.shape != (size[letter],):
            yield f"gpus.{field}", f"has shape {list(column.shape)}", f"give [{size[letter]}]"
        elif column.dtype != kind:
            yield f"gpus.{field}", f"holds {column.dtype}", f"give {kind.__name__}"
    share = gpus.mig_share
    if share is not None and (share.shape != (size["C"],) or share.dtype != np.float64):
        yield "gpus.mig_share", f"has shape {list(share.shape)}", f"give {size['C']} float64"


def gpu_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Values out of range, once all shapes are right."""
    gpus = snapshot.gpus
    if gpus is None:
        return
    yield from _nodes(gpus)
    yield from _classes(gpus)
    yield from _holds(snapshot, gpus)
    yield from _claims(snapshot, gpus)


def _nodes(gpus: Gpus) -> Iterator[Problem]:
    yield from _rows("memory", gpus.memory < 0, gpus.memory, "give MiB of one card, 0 = unknown")
    modes = (gpus.mig < 0) | (gpus.mig >= len(MigMode))
    yield from _rows("mig", modes, gpus.mig, "give a MigMode")
    for name in ("least_mib", "most_mib"):
        if getattr(gpus, name) < 0:
            yield f"gpus.{name}", f"is {getattr(gpus, name)}", "give MiB of one card, 0 = none"
    if not np.isfinite(gpus.mig_excess):
        yield "gpus.mig_excess", f"is {gpus.mig_excess}", "give a finite number"


def _classes(gpus: Gpus) -> Iterator[Problem]:
    known = (gpus.kind >= 0) & (gpus.kind < len(GpuKind))
    yield from _rows("kind", ~known, gpus.kind, "give a GpuKind")
    shared = np.isin(gpus.kind, [int(k) for k in GpuKind if shared_kind(k)])
    few = shared & ((gpus.devices < 1) | (gpus.devices > MOST_SLOTS))
    yield from _rows("devices", few, gpus.devices, f"give 1 to {MOST_SLOTS} devices a pod")
    # not(a < b) also catches NaN
    part = (gpus.kind == GpuKind.FRACTION) & ~((gpus.portion > 0) & (gpus.portion <= 1))
    yield from _rows("portion", part, gpus.portion, "give a part of a card above 0, at most 1")
    none = (gpus.kind == GpuKind.MEMORY) & ((gpus.mib < 1) | (gpus.mib >= 2**40))
    yield from _rows("mib", none, gpus.mib, "give MiB of one card, 1 or more")
    if gpus.mig_share is not None:
        bad = ~np.isfinite(gpus.mig_share) | (gpus.mig_share < 0)
        yield from _rows("mig_share", bad, gpus.mig_share, "give 0 or more cards")


def _holds(snapshot: Snapshot, gpus: Gpus) -> Iterator[Problem]:
    slot = (gpus.hold_slot < 0) | (gpus.hold_slot >= MOST_SLOTS)
    yield from _rows(
        "hold_slot", slot, gpus.hold_slot, f"number devices from 0 to {MOST_SLOTS - 1}"
    )
    task = (gpus.hold_task < 0) | (gpus.hold_task >= snapshot.tasks.count)
    yield from _rows("hold_task", task, gpus.hold_task, "name a row of tasks")
    nodes, resources = snapshot.nodes.count, len(snapshot.resources)
    if gpus.by_claim is not None and gpus.by_claim.shape != (nodes,):
        yield "gpus.by_claim", f"has shape {list(gpus.by_claim.shape)}", f"give [{nodes}]"
    if any(not 0 <= row < resources for row in gpus.share_rows):
        yield "gpus.share_rows", f"is {gpus.share_rows}", "name rows of resources"
    for node, closed in gpus.closed:
        if not (0 <= node < snapshot.nodes.count and 0 <= closed < MOST_SLOTS):
            yield "gpus.closed", f"has {(node, closed)}", "name a row of nodes and a device"
    order = np.lexsort((gpus.hold_slot, gpus.hold_task))
    same = np.diff(gpus.hold_task[order]) == 0
    same &= np.diff(gpus.hold_slot[order]) == 0
    if same.any():
        row = int(order[1:][same][0])
        yield "gpus.hold_slot", f"row {row} is there twice", "name each device of a pod once"


def _claims(snapshot: Snapshot, gpus: Gpus) -> Iterator[Problem]:
    rows, nodes = len(snapshot.resources), snapshot.nodes.count
    for i, claim in enumerate(gpus.claims):
        for row, amount in claim.charge:
            if not (0 <= row < rows and 0 <= amount < 2**62):
                yield f"gpus.claims[{i}].charge", f"is {row, amount}", "give a row, 0 or more of it"
        if not -1 <= claim.node < nodes:
            yield f"gpus.claims[{i}].node", f"is {claim.node}", "name a node, or -1 for none"
    for i, rules in enumerate(snapshot.classes.rules):
        if any(not 0 <= claim < len(gpus.claims) for claim in rules.claims):
            yield f"classes.rules[{i}].claims", f"is {rules.claims}", "name rows of gpus.claims"


def _rows(field: str, bad: Bools, values: NDArray[Any], mend: str) -> Iterator[Problem]:
    """The first row where `bad` is set, with its value."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        yield f"gpus.{field}", f"row {row} is {values[row].item()}", mend

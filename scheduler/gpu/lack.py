"""Why a node has no device for one more pod that shares one, and how near it comes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..fit import Fit
from ..ledger import Ledger
from ..reason import Reason
from ..snapshot import GPU, PODS, Bools, Floats, Snapshot
from .facts import GpuKind
from .room import POD_SLOTS


class DeviceLack(NamedTuple):
    """Per node of the ledger, [N]."""

    slots: Bools  # too few pod slots
    fragmented: Bools  # enough memory in all, on no single device (or on too few)
    short: Bools  # too little memory in all
    free: Floats  # cards that free parts and whole devices make
    largest: Floats  # the largest free part of one device


def device_lack(ledger: Ledger, fit: Fit) -> DeviceLack:
    """For a class that shares devices, as the ledger stands once those that leave have gone."""
    assert ledger.gpus is not None, "only for classes that share devices"
    book = ledger.gpus.devices
    room = ledger.idle + ledger.releasing
    after = book.firm + book.promised
    open_ = (after > 0) & ~book.closed
    part = np.where(open_, np.maximum(book.card - after, 0), 0) / book.card
    whole = np.maximum(ledger.gpus.whole(room, slice(None)), 0)
    free = whole + part.sum(axis=0)
    largest = np.where(whole > 0, 1.0, part.max(axis=0, initial=0.0))
    wanted = book.need(fit.klass) * book.devices[fit.klass] / book.card
    slots = room[PODS] < POD_SLOTS
    none = fit.later <= 0
    return DeviceLack(
        slots=slots & none,
        fragmented=~slots & none & (free + 1e-9 >= wanted),
        short=~slots & none & (free + 1e-9 < wanted),
        free=free,
        largest=largest,
    )


def cards_asked(snapshot: Snapshot, klass: int) -> float:
    """GPUs that a pod of a class asks for, parts of them included."""
    gpus, whole = snapshot.gpus, float(snapshot.classes.request[GPU, klass])
    if gpus is None or gpus.kind[klass] in (GpuKind.NONE, GpuKind.WHOLE):
        return whole
    return float(snapshot.classes.queue_request[GPU, klass])


def old_ways(snapshot: Snapshot, klass: int) -> Reason:
    """What keeps a class off every node for how it asks; NONE where nothing does."""
    gpus = snapshot.gpus
    legacy = gpus is not None and gpus.kind[klass] == GpuKind.LEGACY_MIG
    return Reason.MIG_BY_ANNOTATION if legacy else Reason.NONE


def missing_profile(snapshot: Snapshot, klass: int) -> str:
    """The MIG profile that no node offers, or offers too few of; empty where there is none."""
    gpus = snapshot.gpus
    if gpus is None or gpus.kind[klass] != GpuKind.MIG:
        return ""
    request = snapshot.classes.request[:, klass]
    most = snapshot.nodes.allocatable.max(axis=1, initial=0)
    rows = [r for r in np.flatnonzero(request > most).tolist() if r > PODS]
    return snapshot.resources[rows[0]] if rows else ""

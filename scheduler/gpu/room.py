"""How many pods with shared devices or claims fit on nodes: what `fit` asks beside plain amounts.

Source: KAI 0.17: a shared device fits while it is in use, not all of that is leaving, and its
memory has room; a request needs as many distinct devices of one node, shared ones that fit or whole
ones. Every pod that shares needs two pod slots: KAI holds each card with a pod of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import PODS, Ints
from .claims import ClaimBook

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At

#: Pod slots that must be free for a pod that shares a device.
POD_SLOTS = 2


class SharedRoom:
    """Copies of one class that shares devices."""

    def __init__(self, ledger: Ledger, klass: int) -> None:
        assert ledger.gpus is not None, "a class that shares has a book of devices"
        self._ledger, self._book, self._devices = ledger, ledger.gpus, ledger.gpus.devices
        self._need = self._devices.need(klass)
        self._wanted = self._devices.devices[klass]

    def copies(self, at: At) -> tuple[Ints, Ints]:
        """([n] into room that is free now, [n] into that and what others leave), at most.

        Exact for one device per pod; an upper bound for several.
        """
        ledger = self._ledger
        idle = ledger.idle[:, at]
        later = idle + ledger.releasing[:, at]
        whole_later = np.maximum(self._book.whole(later, at), 0)
        whole_now = np.minimum(np.maximum(self._book.whole(idle, at), 0), whole_later)
        shared_now, devices_now, shared_later, devices_later = self._shared(at)
        each = self._devices.card[at] // self._need[at]
        return (
            self._pods(shared_now, devices_now, whole_now, each, idle[PODS]),
            self._pods(shared_later, devices_later, whole_later, each, later[PODS]),
        )

    def once_gone(self, free: Ints, gone: Ints | None) -> Ints:
        """[N] copies, at most, where `free` [R, N] and the memory `gone` [D, N] are there too."""
        book, need = self._devices, self._need
        after = book.firm + book.promised - (0 if gone is None else gone)
        open_ = (after > 0) & ~book.closed
        later = np.where(open_, np.maximum(book.card - after, 0) // need, 0)
        shared, devices = later.sum(axis=0), (later > 0).sum(axis=0)
        each = book.card // need
        return self._pods(shared, devices, self._whole(free), each, free[PODS])

    def _whole(self, free: Ints) -> Ints:
        """[N] devices of `free` [R, N] that sharing could be opened on."""
        return np.maximum(self._book.whole(free, slice(None)), 0)

    def hosts(self, at: At) -> np.ndarray:
        """[n] whether a device that is shared already has room, now or once others have left."""
        return self._shared(at)[3] > 0

    def _shared(self, at: At) -> tuple[Ints, Ints, Ints, Ints]:
        """(copies, devices that fit) on shared devices: now, then later."""
        book, need = self._devices, self._need[at]
        card, firm, promised = book.card[at], book.firm[:, at], book.promised[:, at]
        here, after = firm + book.leaving[:, at], firm + promised
        open_ = (after > 0) & ~book.closed[:, at]
        later = np.where(open_, np.maximum(card - after, 0) // need, 0)
        now = np.minimum(np.where(here > 0, np.maximum(card - here, 0) // need, 0), later)
        return now.sum(axis=0), (now > 0).sum(axis=0), later.sum(axis=0), (later > 0).sum(axis=0)

    def _pods(self, shared: Ints, devices: Ints, whole: Ints, each: Ints, slots: Ints) -> Ints:
        usable = np.where(each > 0, whole, 0)
        pods = (shared + usable * each) // self._wanted
        pods = np.where(devices + usable >= self._wanted, pods, 0)
        return np.minimum(pods, np.maximum(slots - POD_SLOTS + 1, 0))


class ClaimRoom:
    """What the claims of a class add to its request, and how many pods they allow."""

    def __init__(self, ledger: Ledger, claims: tuple[ClaimBook, ...]) -> None:
        self._ledger, self._claims = ledger, claims

    def free(self, at: At) -> tuple[Ints, Ints]:
        """[R, n] idle room and idle + releasing room, less what claims still have to take."""
        ledger = self._ledger
        idle = ledger.idle[:, at].copy()
        later = idle + ledger.releasing[:, at]
        for claim in self._claims:
            if not claim.taken_now:
                idle -= claim.charge[:, None]
            if not claim.taken_later:
                later -= claim.charge[:, None]
        return idle, later

    def pods(self) -> int:
        """Pods that may still hold all the claims."""
        return min(claim.room() for claim in self._claims)

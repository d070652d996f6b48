"""The books of zones that the ledger keeps, moved together: NUMA cells, GPU link groups, devices
that agree in an attribute.

Every move is written to the ledger's log, so that a trial takes zones back with everything else.
A cluster that tells nothing of zones has no such books, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..snapshot import Codes, Snapshot
from .book import Change, ZoneBook


@dataclass(frozen=True, slots=True)
class Moved:
    """One step of one book, as the ledger's log holds it."""

    book: ZoneBook
    change: Change

    def undo(self) -> None:
        self.book.undo(self.change)


#: Writes a step to the ledger's log.
Log = Callable[[Moved], None]


class Cells:
    """NUMA cells first, then link groups, as far as the snapshot has them, then matches."""

    def __init__(
        self,
        numa: ZoneBook | None,
        links: ZoneBook | None,
        matches: tuple[ZoneBook, ...],
        log: Log,
    ) -> None:
        self.numa, self.links, self.matches, self._log = numa, links, matches, log
        self._books = [book for book in (numa, links, *matches) if book is not None]

    def concern(self, klass: int) -> bool:
        """Whether pods of the class are aligned anywhere."""
        return any(book.concerned[klass] for book in self._books)

    def room(self, klass: int, at: slice | Codes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Per book, ([n] pods that fit now, [n] pods that fit later), at most."""
        for book in self._books:
            if book.concerned[klass]:
                loose = book.lax(klass, at)
                now = np.where(book.aligned(klass, at, now=True).fine | loose, _PLENTY, 0)
                later = book.copies(klass, at, now=False)
                yield np.minimum(now, book.copies(klass, at, now=True)), later

    def take(self, task: int, klass: int, node: int, later: bool) -> None:
        """A pod gets its place on a node."""
        for book in self._books:
            self._note(book, book.take(task, klass, node, later))

    def give_up(self, task: int) -> None:
        """A pod is to leave its zones, or loses the promise of them."""
        for book in self._books:
            self._note(book, book.give_up(task))

    def drop(self, task: int) -> None:
        """A pod that was taken away does not take the other place that it had found."""
        for book in self._books:
            self._note(book, book.drop(task))

    def come_back(self, task: int) -> bool:
        """A pod that was taken away holds its zones again; False if others have them."""
        fits = True
        for book in self._books:
            change = book.come_back(task)
            self._note(book, change)
            fits &= change is None or not book.short(change.node)
        return fits

    def vacate(self, task: int) -> None:
        """The zones that a pod gave up before it ever ran are free now."""
        for book in self._books:
            self._note(book, book.vacate(task))

    def settle(self, task: int, later: bool) -> None:
        """A place on free room becomes a promise, or the other way round."""
        for book in self._books:
            self._note(book, book.settle(task, later))

    def moved(self, task: int) -> bool:
        """Whether a pod that was taken away came back to other zones."""
        return any(book.moved(task) for book in self._books)

    def holds(self, task: int) -> bool:
        """Whether a pod holds any zone."""
        return any(task in book.held for book in self._books)

    def taken(self, tasks: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
        """(task, 0 = NUMA cell or 1 = link group, zone, resource row, amount) of each pod."""
        for kind, book in enumerate((self.numa, self.links)):
            for task in tasks if book is not None else ():
                draw = book.held.get(task) if book is not None else None
                if book is None or draw is None:
                    continue
                for zone, row in np.argwhere(draw.amounts).tolist():
                    yield task, kind, zone, book.facts.rows[row], int(draw.amounts[zone, row])

    def _note(self, book: ZoneBook, change: Change | None) -> None:
        if change is not None:
            self._log(Moved(book, change))


_PLENTY = np.iinfo(np.int32).max


def cells(snapshot: Snapshot, order: Codes, position: Codes, log: Log) -> Cells | None:
    """`order` [N], `position` [N + 1] are the ledger's `origin` and `position`."""
    numa, links = (
        None if zones is None else ZoneBook(snapshot, zones, order, position)
        for zones in (snapshot.zones, snapshot.links)
    )
    matches = tuple(ZoneBook(snapshot, zones, order, position) for zones in snapshot.matches)
    if numa is None and links is None and not matches:
        return None
    return Cells(numa, links, matches, log)

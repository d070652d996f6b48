"""Sampled figures on their way to the file, and the roll-ups of those that are there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kai_ray.history.families import FAMILIES, Family
from kai_ray.history.file import HistoryFile
from kai_ray.history.packing import pack, unpack

_PUT = "INSERT OR REPLACE INTO samples (family, step_s, at_s, data) VALUES (?,?,?,?)"
_NAME = "INSERT OR IGNORE INTO names (id, family, name) VALUES (?,?,?)"
#: Samples that are kept while the file cannot be written.
MOST_SAMPLES = 5_000
#: Samples that one roll-up may read; the rest of a long absence is rolled up by the next.
_MOST_AT_ONCE = 2_000


class Samples:
    def __init__(self) -> None:
        self._names: dict[tuple[str, str], int] = {}
        self._last: dict[str, tuple[Sequence[str], NDArray[np.int32]]] = {}
        self._new: list[tuple[int, str, str]] = []
        self._pending: deque[tuple[str, int, int, bytes]] = deque()
        self._rolled: dict[tuple[str, int], int] = {}  # -> start of the next bucket
        self.lost = 0
        """Samples that were given up since they could not be written for too long."""

    def load(self, file: HistoryFile) -> None:
        """Raises HistoryError."""
        rows = file.read("SELECT id, family, name FROM names")
        self._names = {(family, name): number for number, family, name in rows}
        done = file.read("SELECT family, step_s, max(at_s) FROM samples GROUP BY 1, 2")
        self._rolled = {(family, step): at + step for family, step, at in done}

    def add(
        self, family: Family, at_s: float, names: Sequence[str], columns: dict[str, Any]
    ) -> None:
        """Figures of these things at a time; a column that is left out is not known."""
        last = self._last.get(family.name)
        if last is None or last[0] is not names:  # most often the very same list
            ids = np.array([self._id(family.name, name) for name in names], dtype=np.int32)
            last = self._last[family.name] = (names, ids)
        self.add_ids(family, at_s, last[1], columns)

    def add_ids(
        self, family: Family, at_s: float, ids: NDArray[np.int32], columns: dict[str, Any]
    ) -> None:
        """The same for things that have numbers of their own (jobs)."""
        values = np.full((len(family.columns), ids.size), np.nan)
        for row, name in enumerate(family.columns):
            if name in columns:
                values[row] = columns[name]
        step = family.levels[0].step_s
        at = int(at_s // step) * step
        self._pending.append((family.name, step, at, pack(ids, values)))
        if len(self._pending) > MOST_SAMPLES:
            self._pending.popleft()
            self.lost += 1

    def _id(self, family: str, name: str) -> int:
        found = self._names.get((family, name))
        if found is None:
            found = self._names[family, name] = len(self._names) + 1
            self._new.append((found, family, name))
        return found

    def statements(self) -> list[tuple[str, list[Any]]]:
        made: list[tuple[str, list[Any]]] = []
        if self._new:
            made.append((_NAME, list(self._new)))
        if self._pending:
            made.append((_PUT, list(self._pending)))
        return made

    def written(self) -> None:
        self._new = []
        self._pending.clear()

    # ------------------------------------------------------------------ roll-ups

    def roll_up(self, file: HistoryFile, now_s: float) -> bool:
        """Means of what the file has, level by level; True if more is left. Raises HistoryError."""
        more = False
        for family in FAMILIES.values():
            for below, level in zip(family.levels, family.levels[1:], strict=False):
                end = int(now_s // level.step_s) * level.step_s
                begin = self._rolled.get((family.name, level.step_s), 0)
                if begin >= end:
                    if begin > end + level.step_s:
                        self._rolled[family.name, level.step_s] = end  # the clock was set back
                    continue
                rows = file.read(
                    "SELECT at_s, data FROM samples WHERE family = ? AND step_s = ? "
                    "AND at_s >= ? AND at_s < ? ORDER BY at_s LIMIT ?",
                    (family.name, below.step_s, begin, end, _MOST_AT_ONCE),
                )
                if len(rows) == _MOST_AT_ONCE:
                    more = True
                    last = rows[-1][0] // level.step_s * level.step_s
                    whole = [row for row in rows if row[0] < last]
                    rows, end = (whole, last) if whole else (rows, last + level.step_s)
                made = [
                    (family.name, level.step_s, at, data)
                    for at, data in _means(family, level.step_s, rows)
                ]
                if made:
                    file.write(_PUT, made)
                self._rolled[family.name, level.step_s] = end
        return more


def _means(family: Family, step_s: int, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    buckets: dict[int, list[bytes]] = {}
    for at, data in rows:
        buckets.setdefault(at // step_s * step_s, []).append(data)
    return [(at, mean(family, packed)) for at, packed in buckets.items()]


def mean(family: Family, packed: Sequence[bytes]) -> bytes:
    """One sample for several: means of what is known, and the last of each setting."""
    parts = [unpack(data) for data in packed]
    ids, back = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    back = back.reshape(-1)
    values = np.concatenate([p[1] for p in parts], axis=1).astype(np.float64)
    found = np.full((values.shape[0], ids.size), np.nan)
    for row, name in enumerate(family.columns[: values.shape[0]]):
        if name in family.settings:
            found[row, back] = values[row]  # the last one stays
            continue
        known = ~np.isnan(values[row])
        count = np.bincount(back[known], minlength=ids.size)
        sums = np.bincount(back[known], weights=values[row][known], minlength=ids.size)
        np.divide(sums, count, out=found[row], where=count > 0)
    return pack(ids.astype(np.int32), found)

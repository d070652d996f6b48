"""Reads sampled figures: the resolution that covers a time, decoded into columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from kai_ray.history.families import Family, Level
from kai_ray.history.packing import unpack
from kai_ray.history.rows import Series
from kai_ray.history.samples import mean

Read = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Sample = tuple[int, bytes]
#: Without a step of the caller's, a time is cut into at least so many where it can be.
_STEPS = 200
_SELECT = (
    "SELECT at_s, data FROM samples WHERE family = ? AND step_s = ? AND at_s >= ? AND at_s < ? "
    "ORDER BY at_s"
)


def series(
    read: Read,
    family: Family,
    names: dict[int, str],
    since_s: float,
    until_s: float,
    step_s: float | None,
    now_s: float,
) -> Series:
    """Of the things in `names` (by id); `now_s` is when the file was written last."""
    until_s = min(until_s, now_s + 2 * family.levels[-1].step_s)
    wanted = step_s or max((until_s - since_s) / _STEPS, 1.0)
    at = _level(family, since_s, wanted, now_s)
    step = family.levels[at].step_s
    first = int(since_s // step) * step if since_s > 0 else 0
    found = _samples(read, family, at, first, until_s)
    if wanted > step and step_s:
        step = max(step, round(wanted / step) * step)
        found = _coarser(family, step, found)
    return _decoded(family, names, found, step)


def _level(family: Family, since_s: float, wanted_s: float, now_s: float) -> int:
    """The coarsest that is fine enough, of those that reach back so far."""

    def reaches(level: Level) -> bool:
        return level.keep_s >= now_s - since_s or level is family.levels[-1]

    able = [i for i, level in enumerate(family.levels) if reaches(level)]
    fine = [i for i in able if family.levels[i].step_s <= wanted_s]
    return fine[-1] if fine else able[0]


def _samples(read: Read, family: Family, at: int, begin: int, end_s: float) -> list[Sample]:
    """Of one level; its last steps, which are not rolled up yet, from the level below."""
    step = family.levels[at].step_s
    found: list[Sample] = list(read(_SELECT, (family.name, step, begin, end_s)))
    if at:
        rest = found[-1][0] + step if found else begin
        if rest < end_s:
            found += _coarser(family, step, _samples(read, family, at - 1, rest, end_s))
    return found


def _coarser(family: Family, step_s: int, rows: list[Sample]) -> list[Sample]:
    buckets: dict[int, list[bytes]] = {}
    for at, data in rows:
        buckets.setdefault(at // step_s * step_s, []).append(data)
    return [(at, mean(family, packed)) for at, packed in sorted(buckets.items())]


def _decoded(family: Family, names: dict[int, str], rows: list[Sample], step_s: int) -> Series:
    parts: list[tuple[Any, Any]] = []
    there: set[int] = set()
    wanted = np.array(sorted(names), dtype=np.int64)
    for _, data in rows:
        ids, values = unpack(data)
        keep = np.isin(ids, wanted)
        ids, values = ids[keep], values[:, keep]
        parts.append((ids, values))
        there.update(ids.tolist())
    shown = sorted(there, key=lambda number: names[number])
    place = np.zeros(max(there, default=0) + 1, dtype=np.int64)
    place[shown] = np.arange(len(shown))
    columns = {c: np.full((len(rows), len(shown)), np.nan) for c in family.columns}
    for row, (ids, values) in enumerate(parts):
        for name, column in zip(family.columns, values, strict=False):
            columns[name][row, place[ids]] = column
    at_s = np.array([at for at, _ in rows], dtype=np.float64)
    return Series(at_s, tuple(names[number] for number in shown), columns, step_s)


def named(rows: Collection[tuple[int, str]], only: Collection[str] | None) -> dict[int, str]:
    """Ids to names; `only` these, where some are asked for."""
    return {number: name for number, name in rows if only is None or name in only}

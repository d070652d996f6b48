"""The history as rows for other programs: a header and records, written as CSV or JSON.

Times are seconds since 1970 in UTC, as in the file; what is not known is an empty field or null.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TextIO

from kai_ray.history.job_event import JobEvent
from kai_ray.history.reader import BY, HistoryReader
from kai_ray.history.rows import JobRow, Series, SpentRow

Row = dict[str, Any]
_JOB = tuple(f.name for f in fields(JobRow))
_EVENT = tuple(f.name for f in fields(JobEvent) if f.name not in ("types", "replayed"))
_SPENT = tuple(f.name for f in fields(SpentRow) if f.name != "key")
_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class Window:
    """From and to, and how fine figures are (None: as fine as they are kept)."""

    since_s: float
    until_s: float
    step_s: float | None = None


def jobs(reader: HistoryReader, window: Window) -> Iterator[Row]:
    offset = 0
    while True:
        found = reader.jobs(window.since_s, window.until_s, limit=_PAGE, offset=offset)
        yield from ({name: getattr(row, name) for name in _JOB} for row in found)
        if len(found) < _PAGE:
            return
        offset += _PAGE


def events(reader: HistoryReader, window: Window) -> Iterator[Row]:
    for event in reader.each_event(window.since_s, window.until_s):
        yield {name: getattr(event, name) for name in _EVENT}


def spent(reader: HistoryReader, window: Window) -> Iterator[Row]:
    for row in reader.spent(window.since_s, window.until_s, BY):
        yield dict(zip(BY, row.key, strict=True)) | {name: getattr(row, name) for name in _SPENT}


def _figures(series: Callable[..., Series], window: Window) -> Iterator[Row]:
    found = series(window.since_s, window.until_s, window.step_s)
    for row, at_s in enumerate(found.at_s.tolist()):
        for column, name in enumerate(found.names):
            values = {c: v[row, column].item() for c, v in found.columns.items()}
            if not all(math.isnan(value) for value in values.values()):
                yield {"at_s": at_s, "name": name} | values


#: What can be had, and how.
WHAT: dict[str, Callable[[HistoryReader, Window], Iterator[Row]]] = {
    "jobs": jobs,
    "events": events,
    "spent": spent,
    "queues": lambda reader, window: _figures(reader.queues, window),
    "nodes": lambda reader, window: _figures(reader.nodes, window),
    "cluster": lambda reader, window: _figures(reader.cluster, window),
}


def write_csv(rows: Iterator[Row], to: TextIO) -> int:
    """The number of records. Without any, nothing is written: there is no header to tell."""
    count, writer = 0, csv.writer(to, lineterminator="\n")
    for row in rows:
        if not count:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])
        count += 1
    return count


def write_json(rows: Iterator[Row], to: TextIO) -> int:
    """One array of objects, a record a line."""
    count = 0
    for row in rows:
        to.write(",\n" if count else "[\n")
        to.write(json.dumps({name: _plain(value) for name, value in row.items()}))
        count += 1
    to.write("\n]\n" if count else "[]\n")
    return count


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> float | int | None:
    """As short as it can be written; None for what is not known."""
    if not math.isfinite(value):
        return None
    rounded = round(value, 6)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _cell(value: Any) -> Any:
    """Lists as JSON or, of plain names, with spaces. Text that a table would take for a formula is
    told apart by an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, float):
        found = _number(value)
        return "" if found is None else found
    if isinstance(value, tuple):
        if all(isinstance(part, str) for part in value):
            return " ".join(value)
        return json.dumps(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value

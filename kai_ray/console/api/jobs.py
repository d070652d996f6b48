"""The list of jobs: filtered, searched, sorted and cut to what is on the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_ray.console import shapes
from kai_ray.console.asking import Ask, Refused
from kai_ray.console.job_rows import FACETS, JobRow, facets

MOST = 1000
#: What users look at first comes first.
_STATES = ("Waiting", "Evicted", "Starting", "Running", "Suspended", "Failed", "Succeeded")
_RANK = {state: rank for rank, state in enumerate(_STATES)}

_Key = Callable[[JobRow], Any]
SORTS: dict[str, _Key] = {
    "name": lambda r: r.shown.name,
    "namespace": lambda r: r.shown.namespace,
    "queue": lambda r: r.shown.queue,
    "kind": lambda r: r.shown.kind,
    "user": lambda r: r.shown.user,
    "state": lambda r: _RANK.get(r.shown.state, len(_STATES)),
    "reason": lambda r: (not r.shown.reason, r.shown.reason),
    "position": lambda r: (r.shown.position is None, r.shown.position or 0),
    "gpus": lambda r: r.shown.gpus,
    "priority": lambda r: r.shown.priority,
    "age": lambda r: _Backwards(r.shown.created),
}


class _Backwards(str):
    """The later, the smaller: who is young has a small age."""

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def jobs(ask: Ask) -> shapes.Jobs:
    """Jobs that the viewer may see. All words of `search` must occur in a job's name, namespace,
    queue, kind, user, reason or state; filters take lists with commas."""
    offset = ask.number("offset", 0, 0, 10_000_000)
    limit = ask.number("limit", 200, 0, MOST)
    order = _order(ask.text("sort"))
    view = ask.view
    seen = ask.sees(view)
    version = view.jobs.version
    rows = view.jobs.rows()
    if seen is not None:
        rows = [row for row in rows if row.job.namespace in seen]
    found = _searched(_filtered(rows, ask), ask.text("search"))
    found = order(found)
    health, _ = ask.cluster.health()
    return shapes.Jobs(
        at=view.at,
        total=len(rows),
        matched=len(found),
        offset=offset,
        jobs=[row.shown for row in found[offset : offset + limit]],
        facets=view.kept(("facets", seen), version, lambda: facets(rows)),
        problem=health.message,
    )


def _filtered(rows: list[JobRow], ask: Ask) -> list[JobRow]:
    for name in FACETS:
        wanted = ask.words(name)
        if wanted:
            rows = [row for row in rows if getattr(row.shown, name) in wanted]
    return rows


def _searched(rows: list[JobRow], text: str) -> list[JobRow]:
    for word in text.lower().split():
        rows = [row for row in rows if word in row.text]
    return rows


def _order(text: str) -> Callable[[list[JobRow]], list[JobRow]]:
    """Equal ones stay in the order of namespace and name."""
    down, name = text.startswith("-"), text.removeprefix("-")
    if not name:
        return lambda rows: sorted(sorted(rows, key=SORTS["age"]), key=_first)
    if name not in SORTS:
        known = ", ".join(SORTS)
        raise Refused(f"{name[:40]!r} is no column: sort by {known}", field="sort", code=400)
    return lambda rows: sorted(rows, key=SORTS[name], reverse=down)


def _first(row: JobRow) -> tuple[int, int]:
    return _RANK.get(row.shown.state, len(_STATES)), row.shown.position or 0

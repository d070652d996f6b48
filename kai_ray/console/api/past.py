"""What was: figures of queues over time, jobs that are gone, how a job used its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kai_ray.api.durations import parse_duration
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.console import shapes
from kai_ray.console.asking import Ask, Refused
from kai_ray.console.cluster import View
from kai_ray.history.file import HistoryError
from kai_ray.history.reader import HistoryReader
from kai_ray.history.rows import JobRow as PastRow

MOST_QUEUES = 50
MOST_POINTS = 2000
MOST_JOBS = 1000
LONGEST_S = 31 * 86_400.0


def reader(view: View) -> HistoryReader:
    """Raises NotFound where no history is kept."""
    if view.history is None:
        raise Refused(
            "no history is kept here",
            next="run the scheduler with --state, or the console with --history FILE",
            code=404,
        )
    return view.history


def queues(ask: Ask) -> shapes.QueuePasts:
    """GPUs of queues over time: quota, fair share, allocated, requested; jobs that waited."""
    ask.must_list(R.QUEUE)
    view = ask.view
    since_s = view.now_s - length(ask, "since", 6 * 3600.0)
    step = ask.number("step", 0, 0, 86_400)
    named = sorted(ask.words("queue"))
    if len(named) > MOST_QUEUES:
        raise Refused(f"names {len(named)} queues: at most {MOST_QUEUES}", field="queue", code=400)
    least = math.ceil((view.now_s - since_s) / MOST_POINTS)
    try:
        found = reader(view).queues(since_s, step_s=max(step, least, 1), names=named or None)
    except HistoryError as error:
        return shapes.QueuePasts(step or least, {}, str(error))
    at = [rfc3339(moment) for moment in found.at_s.tolist()]
    series = {
        name: shapes.QueuePast(
            at=at,
            **{key: _points(found.of(name)[column]) for key, column in _COLUMNS.items()},
        )
        for name in found.names[:MOST_QUEUES]
    }
    return shapes.QueuePasts(found.step_s, series)


_COLUMNS = {
    "quota": "quota",
    "limit": "limit",
    "fair_share": "fair_share",
    "allocated": "allocated",
    "requested": "requested",
    "waiting": "waiting",
}


def jobs(ask: Ask) -> shapes.PastJobs:
    """Jobs that lived since then, the youngest first, also those that are gone."""
    view = ask.view
    seen = ask.sees(view)
    limit, offset = ask.number("limit", 200, 1, MOST_JOBS), ask.number("offset", 0, 0, 10_000_000)
    since_s = view.now_s - length(ask, "since", 7 * 86_400.0)
    filters = ("queue", "user", "kind", "namespace", "state")
    only: dict[str, Any] = {name: ask.text(name) or None for name in filters}
    try:
        if seen is None:
            found = reader(view).jobs(since_s, limit=limit, offset=offset, **only)
        else:  # what is hidden must not be counted, or it could be
            every = reader(view).jobs(since_s, limit=-1, **only)
            found = [row for row in every if row.namespace in seen][offset : offset + limit]
    except HistoryError as error:
        return shapes.PastJobs([], str(error))
    return shapes.PastJobs([_job(row) for row in found])


def gone(view: View, namespace: str, kind: str, name: str) -> PastRow | None:
    """A job that is on no list any more, if the history knows it."""
    if view.history is None:
        return None
    try:
        found = view.history.find(namespace, name, kind)
    except HistoryError:
        return None
    return found[0] if found else None


def detail(view: View, row: PastRow) -> shapes.JobDetail:
    """What the history says of a job that is gone."""
    from kai_ray.console.api.timeline import moments

    assert view.history is not None
    state = row.outcome or row.state.capitalize()
    return shapes.JobDetail(
        uid=row.uid,
        namespace=row.namespace,
        name=row.name,
        kind=row.kind,
        api_version=row.api_version,
        queue=row.queue,
        user=row.user,
        priority=0,
        state=state,
        reason=row.reason,
        message=row.message,
        gpus=row.gpus,
        running=0,
        wanted=0,
        created=rfc3339(row.created_s),
        started_at=rfc3339(row.started_s) if row.started_s is not None else "",
        ended_at=rfc3339(row.ended_s) if row.ended_s is not None else "",
        nodes=0,
        labels={},
        gangs=[],
        timeline=moments(view.history.events(row.uid)),
        history_from="history",
        events=[],
    )


def use(view: View, uids: Iterable[str], since_s: float) -> list[shapes.UseSample]:
    """How a job used its GPUs; nothing where nobody knows."""
    if view.history is None:
        return []
    samples: list[shapes.UseSample] = []
    for uid in sorted(uids):
        try:
            found = view.history.gpu(uid, since_s)
        except HistoryError:
            continue
        if uid not in found.names:
            continue
        columns = found.of(uid)
        for row, at in enumerate(found.at_s.tolist()):
            held, known, used, size = (
                float(columns[c][row]) for c in ("held", "known", "used", "used_mib")
            )
            if math.isnan(held):
                continue
            part = used / known if known > 0 and not math.isnan(used) else None
            size_known = None if math.isnan(size) else size
            samples.append(shapes.UseSample(rfc3339(at), part, size_known, held))
    return sorted(samples, key=lambda sample: sample.at)


def _job(row: PastRow) -> shapes.PastJob:
    return shapes.PastJob(
        uid=row.uid,
        namespace=row.namespace,
        name=row.name,
        kind=row.kind,
        queue=row.queue,
        user=row.user,
        state=row.state,
        outcome=row.outcome,
        gpus=row.gpus,
        created=rfc3339(row.created_s),
        started_at=rfc3339(row.started_s) if row.started_s is not None else "",
        ended_at=rfc3339(row.ended_s) if row.ended_s is not None else "",
        waited_seconds=row.waited_s,
        ran_seconds=row.ran_s,
        evictions=row.evictions,
        gpu_hours=row.held_gpu_s / 3600,
    )


def length(ask: Ask, name: str, default_s: float) -> float:
    text = ask.text(name)
    if not text:
        return default_s
    found = parse_duration(text)
    if found is None and text.endswith("d") and text[:-1].isdecimal() and len(text) < 6:
        found = int(text[:-1]) * 86_400.0
    if found is None or not 0 < found <= LONGEST_S:
        raise Refused(f"{text[:40]!r} is no length such as 6h or 7d", field=name, code=400)
    return found


def _points(column: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(float(value), 4) for value in column]

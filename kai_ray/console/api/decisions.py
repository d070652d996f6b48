"""Decisions: each cycle that did something, what it bound, whom it evicted and for whom."""

from __future__ import annotations

from kai_ray.cluster.clock import rfc3339
from kai_ray.console import shapes
from kai_ray.console.asking import Ask
from kai_ray.sight.decisions import Decision, Evicted, Placed

MOST = 200
_NEVER = 2**62


def decisions(ask: Ask) -> shapes.Decisions:
    """Newest first; `before` is the id of the one that was last on the page before."""
    limit = ask.number("limit", 50, 1, MOST)
    before = ask.number("before", _NEVER, 0, _NEVER)
    view = ask.view
    if view.inside is None:
        note = "decisions are kept by the process that makes them: open its own console"
        return shapes.Decisions(note, [])
    if view.runtime.waiting:
        note = f"this process does not decide now: {view.runtime.waiting}"
    else:
        note = ""
    seen = ask.sees(view)
    found = [d for d in view.inside.sight.decisions.last() if d.id < before]
    return shapes.Decisions(note, [_decision(d, seen) for d in found[:limit]])


def _decision(decision: Decision, seen: frozenset[str] | None) -> shapes.Decision:
    everything = (*decision.bound, *decision.nominated, *decision.evicted)
    return shapes.Decision(
        id=decision.id,
        number=decision.cycle,
        pool=decision.pool,
        at=rfc3339(decision.at_s),
        seconds=sum(decision.seconds.values()),
        bound=[_placed(p) for p in decision.bound if _visible(p, seen)],
        evicted=[_evicted(e, seen) for e in decision.evicted if _visible(e, seen)],
        nominated=[_placed(p) for p in decision.nominated if _visible(p, seen)],
        waits=dict(decision.waits),
        hidden=sum(not _visible(one, seen) for one in everything),
    )


def _visible(one: Placed | Evicted, seen: frozenset[str] | None) -> bool:
    return seen is None or one.group.namespace in seen


def _placed(placed: Placed) -> shapes.Placed:
    kind, name = _job(placed.job)
    return shapes.Placed(
        namespace=placed.group.namespace,
        kind=kind,
        job=name,
        queue=placed.queue,
        pods=placed.pods,
        gpus=placed.gpus,
        nodes=list(placed.nodes),
    )


def _evicted(evicted: Evicted, seen: frozenset[str] | None) -> shapes.EvictedJob:
    kind, name = _job(evicted.job)
    whom = _whom(evicted, seen)
    message = f"{kind} {name} had to leave by rule {evicted.reason}"
    return shapes.EvictedJob(
        namespace=evicted.group.namespace,
        kind=kind,
        job=name,
        queue=evicted.queue,
        pods=evicted.pods,
        gpus=evicted.gpus,
        rule=evicted.reason,
        for_whom=whom,
        message=f"{message} for {whom}" if whom else message,
    )


def _whom(evicted: Evicted, seen: frozenset[str] | None) -> str:
    """A job that the viewer may not see is told of by its queue only."""
    if not evicted.for_job:
        return ""
    namespace = evicted.for_job.partition(" ")[2].partition("/")[0]
    if seen is None or namespace in seen:
        return f"{evicted.for_job} of queue {evicted.for_queue}"
    return f"a job of queue {evicted.for_queue}"


def _job(text: str) -> tuple[str, str]:
    """(kind, name) of "RayJob namespace/name"."""
    kind, _, path = text.partition(" ")
    return kind, path.rpartition("/")[2]

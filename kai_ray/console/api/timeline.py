"""What happened to a job: from the history, else from what was seen lately, else from events."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.cluster.clock import rfc3339
from kai_ray.console import shapes
from kai_ray.console.cluster import View
from kai_ray.console.job_rows import JobRow
from kai_ray.controllers.owners import top_owner
from kai_ray.history.file import HistoryError
from kai_ray.history.job_event import JobEvent

#: Events' reasons as words of the timeline.
_WORDS = {
    "Grouped": "grouped",
    "Scheduled": "started",
    "Bound": "started",
    "Nominated": "nominated",
    "Unschedulable": "waits",
    "Reclaimed": "evicted",
    "Preempted": "evicted",
    "Consolidated": "evicted",
    "StaleGang": "evicted",
    "Finished": "ended",
}
MOST = 500


def timeline(
    view: View, row: JobRow, events: list[shapes.Event]
) -> tuple[list[shapes.Moment], str]:
    """Oldest first, and where it comes from: history, sight or events."""
    uids = uids_of(view, row)
    found = _kept(view, uids)
    if found:
        return moments(found), "history"
    seen = view.lately.of(uids)
    if seen:
        return moments(seen), "sight"
    told = [
        shapes.Moment(
            at=event.at,
            what=_WORDS.get(event.reason, "told"),
            reason=event.reason,
            message=event.message,
            nodes=[],
            gpus=0.0,
            for_whom="",
        )
        for event in reversed(events)
    ]
    return told, "events"


def uids_of(view: View, row: JobRow) -> set[str]:
    """By which a job may be known: of the workload, of what its gangs were made for, of those."""
    groups = view.jobs.groups(row)
    uids = {owner.uid for group in groups if (owner := top_owner(group)) is not None}
    uids |= {group["metadata"].get("uid") or "" for group in groups} | {row.shown.uid}
    return uids - {""}


def _kept(view: View, uids: set[str]) -> list[JobEvent]:
    if view.history is None:
        return []
    try:
        found = [event for uid in sorted(uids) for event in view.history.events(uid)]
    except HistoryError:
        return []
    return sorted(found, key=lambda event: event.at_s)


def moments(events: Iterable[JobEvent]) -> list[shapes.Moment]:
    return [
        shapes.Moment(
            at=rfc3339(event.at_s),
            what=event.what,
            reason=event.reason,
            message=event.message,
            nodes=list(event.nodes),
            gpus=event.held,
            for_whom=event.for_whom,
        )
        for event in events
    ][-MOST:]

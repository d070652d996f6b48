"""What happened to a job: from the history, else from what was seen lately, else from events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kai_ray.cluster.clock import rfc3339
from kai_ray.console import shapes
from kai_ray.console.cluster import View
from kai_ray.console.job_board import JobRow
from kai_ray.controllers.owners import top_owner

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
    groups = view.jobs.groups(row)
    uids = {owner.uid for group in groups if (owner := top_owner(group)) is not None}
    uids |= {group["metadata"].get("uid") or "" for group in groups} | {row.shown.uid}
    inside = view.inside
    if inside is not None and inside.history is not None:
        found = [event for uid in sorted(uids - {""}) for event in inside.history.events(uid)]
        if found:
            return moments(sorted(found, key=lambda event: event.at_s)), "history"
    seen = view.lately.of(uids - {""})
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


def moments(events: Iterable[Any]) -> list[shapes.Moment]:
    """Of JobEvents or of rows of the history, which have the same names."""
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

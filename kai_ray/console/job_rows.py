"""A job as a row of the list, and how many rows there are of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object
from kai_ray.console import shapes
from kai_ray.sight.jobs.listing import ENDED, Job

FACETS = ("state", "queue", "kind", "namespace", "reason", "user")


class JobRow:
    """A job, what the list shows of it, and the text that a search looks through."""

    __slots__ = ("job", "shown", "text")

    def __init__(self, job: Job, shown: shapes.Job) -> None:
        self.job = job
        self.shown = shown
        words = (job.name, job.namespace, job.queue, job.kind, shown.user, job.reason, job.status)
        self.text = " ".join(words).lower()


def facets(rows: Iterable[JobRow]) -> dict[str, dict[str, int]]:
    """How many jobs there are of each state, queue, kind, namespace, reason and user."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    for row in rows:
        shown = row.shown
        counts["state"][shown.state] += 1
        counts["queue"][shown.queue] += 1
        counts["kind"][shown.kind] += 1
        counts["namespace"][shown.namespace] += 1
        if shown.reason:
            counts["reason"][shown.reason] += 1
        if shown.user:
            counts["user"][shown.user] += 1
    return {name: dict(found) for name, found in counts.items()}


def shown(job: Job, groups: list[Object], owner: Object | None) -> shapes.Job:
    """What the list shows of a job; its position is filled in by the board."""
    labels = [(g["metadata"].get("labels") or {}) for g in groups] or [job.labels]
    notes = [(g["metadata"].get("annotations") or {}) for g in groups]
    meta = (owner or (groups[0] if groups else {})).get("metadata") or {}
    return shapes.Job(
        uid=meta.get("uid") or "",
        namespace=job.namespace,
        name=job.name,
        kind=job.kind,
        api_version=job.api_version,
        queue=job.queue,
        user=next((str(found[L.USER]) for found in labels if found.get(L.USER)), ""),
        priority=job.priority,
        state=job.status,
        reason=job.reason,
        message=job.message,
        gpus=job.gpus,
        running=job.running,
        wanted=job.wanted,
        created=job.created,
        started_at=max((n.get(L.LAST_START) or "" for n in notes), default=""),
        ended_at=_ended_at(groups) if job.status in ENDED else "",
        nodes=len(job.nodes),
        evicted=shapes.Evicted(job.evicted.rule, job.evicted.message, job.evicted.since)
        if job.evicted
        else None,
    )


def _ended_at(groups: list[Object]) -> str:
    """When the last gang of a job that has ended did; empty if none says so."""
    found = (
        condition.get("lastTransitionTime") or ""
        for group in groups
        for condition in (group.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Finished" and condition["status"] == "True"
    )
    return max(found, default="")

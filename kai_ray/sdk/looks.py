"""What one look at a job finds, and what has changed since the one before."""

from __future__ import annotations

from dataclasses import dataclass

from kai_ray.cluster.port import Object
from kai_ray.sdk.status import Status
from kai_ray.sight.jobs import listing


@dataclass(frozen=True)
class Look:
    """What one look at a job found: its object, and its row where it has a gang."""

    status: Status
    row: listing.Job | None
    object: Object


@dataclass(frozen=True)
class Change:
    """What `Job.changes` tells: where the job stands now, for what it waits, and its place.

    >>> job = kai.submit(kai_ray.BatchJob("short", image="busybox", gpus=1), queue="vision")
    >>> [change.status.value for change in job.changes()][-2:]
    ['Running', 'Succeeded']
    """

    status: Status
    reason: str
    message: str
    position: int | None


def change_of(found: Look) -> Change:
    """What a look says to one who follows."""
    row = found.row
    if row is None or not found.status.queued:
        return Change(found.status, "", "", None)
    return Change(found.status, row.reason, row.message, row.position)

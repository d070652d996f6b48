"""Where a job stands, in one word."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a job stands. Equal to its word: `job.status == "Running"`.

    SUBMITTED: there is no gang yet. WAITING: in its queue; `reason` says for what. EVICTED: had to
    leave, and is in its queue again. STARTING: has places. SUSPENDED: out of its queue until it is
    resumed. DELETED: the object is gone.

    >>> kai_ray.Status.RUNNING == "Running", kai_ray.Status("Failed").ended
    (True, True)
    """

    SUBMITTED = "Submitted"
    WAITING = "Waiting"
    EVICTED = "Evicted"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen.

        >>> [s.value for s in kai_ray.Status if s.ended]
        ['Succeeded', 'Failed', 'Deleted']
        """
        return self in (Status.SUCCEEDED, Status.FAILED, Status.DELETED)

    @property
    def queued(self) -> bool:
        """Whether it is in its queue and holds nothing.

        >>> [s.value for s in kai_ray.Status if s.queued]
        ['Submitted', 'Waiting', 'Evicted']
        """
        return self in (Status.SUBMITTED, Status.WAITING, Status.EVICTED)

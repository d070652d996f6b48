"""Waiting for jobs, without a thread each: what one look says, and how long until the next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from kai_ray.cluster import resources as R
from kai_ray.podgrouper.outcome import told
from kai_ray.sdk.errors import JobDeleted, JobFailed, WaitTimeout
from kai_ray.sdk.patience import Patience, seconds
from kai_ray.sdk.status import Status

if TYPE_CHECKING:
    from kai_ray.sdk.job import Job
    from kai_ray.sdk.looks import Look
    from kai_ray.sdk.progress import Progress

Until = Literal["decided", "started", "ended"]
#: Kinds that run until they are deleted.
ENDLESS = frozenset(
    r.kind
    for r in (
        R.RAY_CLUSTER,
        R.RAY_SERVICE,
        R.RAY_CRON_JOB,
        R.CRON_JOB,
        R.DEPLOYMENT,
        R.STATEFUL_SET,
        R.REPLICA_SET,
        R.LEADER_WORKER_SET,
    )
)
_VERBS = {"decided": "was not decided about", "started": "did not start", "ended": "did not end"}


class Wait:
    """Several jobs until each has come so far. `look` until it is True, `pause_s` in between."""

    def __init__(
        self,
        jobs: Sequence[Job],
        until: Until | None,
        timeout: float | timedelta | None,
        progress: Progress,
        *,
        failing: bool = True,
    ) -> None:
        if until is not None and until not in _VERBS:
            raise ValueError(f"until={until!r}: write one of {', '.join(map(repr, _VERBS))}")
        self._open = list(dict.fromkeys(jobs))
        self._until: Until | None = until
        self._timeout_s = seconds(timeout)
        self._patience = Patience()
        self._progress = progress
        self._failing = failing
        self._pace = jobs[0].client.pace if jobs else None
        self._began = self._pace.now() if self._pace else 0.0
        self.done: list[Job] = []

    def look(self) -> bool:
        """Whether all have come so far. Raises JobFailed, JobDeleted or WaitTimeout."""
        for job in list(self._open):
            found = self._patience.look(job)
            if found is None:
                break
            self._progress.update(job, found)
            if self._is_done(job, found):
                self._open.remove(job)
                self.done.append(job)
        if self._open:
            self._check_time()
        return not self._open

    @property
    def pause_s(self) -> float:
        """Until the next look: as long as reading allows, but not beyond the end of the time."""
        if self._pace is None:
            return 0.0
        pause = self._open[0].client.rows.pause_s if self._open else 0.0
        if self._timeout_s is None:
            return pause
        return max(0.0, min(pause, self._began + self._timeout_s - self._pace.now()))

    def _is_done(self, job: Job, found: Look) -> bool:
        status = found.status
        if status is Status.DELETED and self._failing:
            raise gone(job, found)
        if status is Status.FAILED and self._failing:
            raise failed(job, found)
        return reached(status, found, self._until or goal_of(job))

    def _check_time(self) -> None:
        assert self._pace is not None
        if self._timeout_s is None or self._pace.now() - self._began < self._timeout_s:
            return
        job = self._open[0]
        until = self._until or goal_of(job)
        others = f" (and {len(self._open) - 1} more)" if len(self._open) > 1 else ""
        raise WaitTimeout(
            f"{job.ref}{others} {_VERBS[until]} within {self._timeout_s:g} s",
            why=f"it is {job.standing}",
            command=f"kai explain {job.ref} -n {job.namespace}",
            python="explain() says why; wait() again, or delete() it",
        )


def goal_of(job: Job) -> Until:
    """What waiting means where nobody says: the end, or the start of what never ends."""
    return "started" if job.kind in ENDLESS else "ended"


def reached(status: Status, found: Look, until: Until) -> bool:
    if status.ended:
        return True
    if until == "started":
        return status is Status.RUNNING
    if until == "decided":
        named = found.row is not None and bool(found.row.reason)
        return status is not Status.SUBMITTED and (named or status is not Status.WAITING)
    return False


def gone(job: Job, found: Look) -> JobDeleted:
    """Says so, and if its own kind deletes it when it has ended."""
    why = "it was deleted, or replaced by another of its name"
    spec = found.object.get("spec") or {}
    for holder in (spec, spec.get("runPolicy") or {}):
        ttl = holder.get("ttlSecondsAfterFinished")
        if isinstance(ttl, int):
            why = f"it may have ended: its ttlSecondsAfterFinished is {ttl}; write a minute or more"
    return JobDeleted(f"{job.ref} is gone", why=why, command=f"kai get jobs -n {job.namespace}")


def failed(job: Job, found: Look) -> JobFailed:
    """The failure of a job in its operator's own words."""
    error = JobFailed(
        f"{job.ref} has failed",
        why=told(found.object).removeprefix("Failed: ").removeprefix("Failed"),
        command=f"kai describe job {job.ref} -n {job.namespace}",
        python="events() shows what happened",
    )
    error.jobs = (job.name,)
    return error

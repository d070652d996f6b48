"""Stand-ins that start work by the clock: CronJob and KubeRay's RayCronJob."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kai_ray.api import cron
from kai_ray.api.durations import parse_duration
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from .world import World, condition, is_deleting, is_true, own_copy, owner_ref, split_key, suffix

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
RAY_CRON_JOB = "ray.io/cronjob-name"
RAY_SCHEDULED_AT = "ray.io/cronjob-scheduled-timestamp"
#: A schedule that is further behind than this starts at the newest time only.
_MOST_MISSED = 100


class CronJobOperator:
    name = "cronjob"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.CRON_JOB)
        self._world.watch_owned(self.name, R.JOB, R.CRON_JOB)

    def reconcile(self, key: str) -> float | None:
        cron_job = self._world.get(R.CRON_JOB, *split_key(key))
        if cron_job is None or is_deleting(cron_job):
            return None
        spec = cron_job["spec"]
        status = own_copy(cron_job.get("status") or {})
        jobs = self._world.owned(R.JOB, cron_job)
        self._trim(spec, jobs)
        wait = None
        due, later = _due(cron_job, status, self._world.now())
        if due is not None and not spec.get("suspend"):
            self._start(cron_job, status, jobs, due)
        if later is not None:
            wait = later - self._world.now()
        active = [j for j in self._world.owned(R.JOB, cron_job) if not _ended(j)]
        status["active"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": j["metadata"]["name"],
                "namespace": j["metadata"]["namespace"],
                "uid": j["metadata"]["uid"],
            }
            for j in active
        ]
        if not status["active"]:
            status.pop("active")
        done = [c["lastTransitionTime"] for j in jobs if (c := condition(j, "Complete"))]
        if done:
            status["lastSuccessfulTime"] = max(done)
        self._world.set_status(R.CRON_JOB, cron_job, status)
        return wait

    def _start(self, cron_job: Object, status: Object, jobs: list[Object], due: float) -> None:
        spec, meta = cron_job["spec"], cron_job["metadata"]
        late = spec.get("startingDeadlineSeconds")
        if late is not None and self._world.now() - due > late:
            status["lastScheduleTime"] = self._world.stamp(due)
            return
        active = [j for j in jobs if not _ended(j)]
        policy = spec.get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            return
        if policy == "Replace":
            for job in active:
                self._world.delete(R.JOB, job)
        template = own_copy(spec["jobTemplate"])
        own = template.get("metadata") or {}
        new_meta: Object = {
            "name": f"{meta['name'][:52]}-{int(due) // 60}",
            "namespace": meta["namespace"],
            "annotations": {**(own.get("annotations") or {}), SCHEDULED_AT: self._world.stamp(due)},
            "ownerReferences": [owner_ref(R.CRON_JOB, cron_job)],
        }
        if own.get("labels"):
            new_meta["labels"] = own["labels"]
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": new_meta,
            "spec": template["spec"],
        }
        self._world.create(R.JOB, job)
        status["lastScheduleTime"] = self._world.stamp(due)

    def _trim(self, spec: Object, jobs: list[Object]) -> None:
        """Keeps the newest ended Jobs, as many as the history limits allow."""
        for kind, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            keep = spec.get(field)
            keep = default if keep is None else keep
            ended = [j for j in jobs if is_true(j, kind)]
            for job in ended[: max(0, len(ended) - keep)]:
                self._world.delete(R.JOB, job)


class RayCronJobOperator:
    name = "raycronjob"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.RAY_CRON_JOB)

    def reconcile(self, key: str) -> float | None:
        cron_job = self._world.get(R.RAY_CRON_JOB, *split_key(key))
        if cron_job is None or is_deleting(cron_job) or cron_job["spec"].get("suspend"):
            return None
        status = own_copy(cron_job.get("status") or {})
        due, later = _due(cron_job, status, self._world.now())
        if due is not None:
            self._world.create(R.RAY_JOB, self._job(cron_job, due))
            status["lastScheduleTime"] = self._world.stamp()
        self._world.set_status(R.RAY_CRON_JOB, cron_job, status)
        return None if later is None else later - self._world.now()

    def _job(self, cron_job: Object, due: float) -> Object:
        meta = cron_job["metadata"]
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {
                "name": f"{meta['name']}-{suffix(meta['uid'], int(due))}",
                "namespace": meta["namespace"],
                "labels": {RAY_CRON_JOB: meta["name"]},
                "annotations": {RAY_SCHEDULED_AT: self._world.stamp(due)},
                "ownerReferences": [owner_ref(R.RAY_CRON_JOB, cron_job)],
            },
            "spec": own_copy(cron_job["spec"]["jobTemplate"]),
        }


def _due(cron_job: Object, status: Object, now: float) -> tuple[float | None, float | None]:
    """The newest time since the last start that has come, and the next one (bad schedule: None)."""
    try:
        schedule = _schedule(cron_job["spec"]["schedule"])
        zone = _zone(cron_job["spec"].get("timeZone"))
    except (ValueError, ZoneInfoNotFoundError):
        return None, None
    since = epoch(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
    due = None
    when = schedule.after(since, zone)
    for _ in range(_MOST_MISSED):
        if when is None or when > now:
            return due, when
        due, when = when, schedule.after(when, zone)
    return now, schedule.after(now, zone)


@dataclass(frozen=True)
class _Every:
    """The operators' own word for a steady pace: `@every 30s`, in whole seconds."""

    seconds: int

    def after(self, epoch_s: float, zone: tzinfo) -> float:
        return int(epoch_s) + self.seconds


def _schedule(text: str) -> cron.Schedule | _Every:
    if not text.startswith("@every "):
        return cron.parse(text)
    pace = parse_duration(text.removeprefix("@every "))
    if pace is None:
        raise ValueError(f"{text!r}: give a time such as 30s after @every")
    return _Every(max(1, int(pace)))


def _zone(name: str | None) -> tzinfo:
    return ZoneInfo(name) if name else UTC


def _ended(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed") or is_deleting(job)

"""When a job starts at the latest, as far as anybody has said when others end.

Known ends are deadlines that running work has set itself (`activeDeadlineSeconds`) or its queue has
(`kai.scheduler/max-run-time`). The decision is made again without the work that has ended by then:
no guess about run times, and no promise about jobs that may still be submitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kai_ray.api import labels as L
from kai_ray.api.durations import parse_duration
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import Clock, epoch
from kai_ray.cluster.port import ApiError, Key, NotFound, Object, Page, Port, Resource, key_of
from kai_ray.sdk.finding import Found
from kai_ray.sight.jobs import pods as P
from kai_ray.sight.jobs.owners import owner_of


@dataclass(frozen=True, repr=False)
class Eta:
    """When a job starts at the latest, and why that is known.

    >>> eta = kai_ray.Eta(datetime(2026, 1, 1, tzinfo=UTC), "until then its room is kept")
    >>> print(eta)
    2026-01-01 00:00:00+00:00: until then its room is kept
    """

    at: datetime
    why: str

    def __str__(self) -> str:
        return f"{self.at}: {self.why}"

    def __repr__(self) -> str:
        return f"Eta({self})"


def eta(port: Port, found: Found, clock: Clock) -> Eta | None:
    """None where the job does not wait, or nobody has said when others end."""
    job = found.job
    notes = found.object["metadata"].get("annotations") or {}
    if L.RESUME_AT in notes and (back := _time(notes[L.RESUME_AT])):
        return Eta(_when(back), "then it is put back into its queue, and starts when it fits")
    if job is None or job.status not in ("Waiting", "Evicted") or not job.gangs:
        return None
    if job.hold and (until := _time(job.hold.until)):
        return Eta(_when(until), f"pods of {', '.join(job.hold.victims)} leave for it")
    try:
        return _by_deadlines(port, found, clock)
    except ApiError:  # nodes or other namespaces that its user may not see
        return None


def _by_deadlines(port: Port, found: Found, clock: Clock) -> Eta | None:
    ends = known_ends(port)
    job = found.job
    assert job is not None
    own = {Key(job.namespace, gang.name) for gang in job.gangs}
    ends = [(at, key) for at, key in ends if key not in own]
    if not ends or not _starts(port, found, clock, {key for _, key in ends}):
        return None
    low, high = 0, len(ends) - 1  # the first whose end lets it start
    while low < high:
        middle = (low + high) // 2
        if _starts(port, found, clock, {key for _, key in ends[: middle + 1]}):
            high = middle
        else:
            low = middle + 1
    at, key = ends[low]
    return Eta(_when(at), f"{key.name} in namespace {key.namespace} has ended by then")


def _starts(port: Port, found: Found, clock: Clock, gone: set[Key]) -> bool:
    from kai_ray.controllers.explain import explain_workload

    job = found.job
    assert job is not None
    later: Any = _Later(port, gone)
    gangs = [
        g
        for gang in job.gangs
        for g in explain_workload(later, "PodGroup", gang.name, job.namespace, clock=clock).gangs
    ]
    return bool(gangs) and all(g.state == "Starting" for g in gangs)


def known_ends(port: Port) -> list[tuple[float, Key]]:
    """(epoch seconds, PodGroup) of the gangs that hold places and have to end, soonest first."""
    groups = port.list(R.POD_GROUP).items
    queues = {q["metadata"]["name"]: q for q in port.list(R.QUEUE).items}
    owners: dict[Resource, dict[Key, Object]] = {}
    found: list[tuple[float, Key]] = []
    for group in groups:
        meta = group["metadata"]
        started = _time((meta.get("annotations") or {}).get(L.LAST_START))
        ends = [_run_time_end(group, queues, started)]
        api_version, kind, name = owner_of(group)
        resource = R.BY_KIND.get((api_version, kind))
        if resource is not None and resource.namespaced:
            if resource not in owners:
                owners[resource] = _by_key(port, resource)
            ends.append(_deadline(owners[resource].get(Key(meta["namespace"], name)), started))
        known = [end for end in ends if end is not None]
        if known:
            found.append((min(known), key_of(group)))
    return sorted(found)


def _by_key(port: Port, resource: Resource) -> dict[Key, Object]:
    try:
        return {key_of(obj): obj for obj in port.list(resource).items}
    except NotFound:
        return {}


def _deadline(owner: Object | None, started: float | None) -> float | None:
    """By the workload's own word. It counts from its start; one without has none yet."""
    if owner is None:
        return None
    spec = owner.get("spec") or {}
    status = owner.get("status") or {}
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is None:
        seconds = (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    begun = _time(status.get("startTime")) or started
    if not isinstance(seconds, int) or begun is None:
        return None
    return begun + seconds


def _run_time_end(group: Object, queues: dict[str, Object], started: float | None) -> float | None:
    """By the maximum run time of its queue, or of the nearest above it that has one."""
    if started is None:
        return None
    name = (group.get("spec") or {}).get("queue") or ""
    for _ in range(len(queues)):
        queue = queues.get(name)
        if queue is None:
            return None
        text = (queue["metadata"].get("annotations") or {}).get(L.MAX_RUN_TIME)
        seconds = parse_duration(str(text)) if text else None
        if seconds:
            return started + seconds
        name = (queue.get("spec") or {}).get("parentQueue") or ""
    return None


class _Later:
    """A port on which the pods of some gangs are gone. For reading only."""

    def __init__(self, port: Port, gone: set[Key]) -> None:
        self._port, self._gone = port, gone

    def list(self, resource: Resource, namespace: str | None = None, **wanted: Any) -> Page:
        page = self._port.list(resource, namespace, **wanted)
        if resource != R.POD:
            return page
        return page._replace(items=[pod for pod in page.items if not self._left(pod)])

    def _left(self, pod: Object) -> bool:
        return Key(pod["metadata"]["namespace"], P.gang_name(pod)) in self._gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def _time(text: Any) -> float | None:
    try:
        return epoch(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _when(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)

"""The jobs of the history: events in, rows out, and what was held in between added up.

Everything is kept in memory until it has been written; the file is behind for a moment, never
wrong. After a restart the book goes on from the rows of jobs that had not ended.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kai_ray.history.job_event import WHAT, JobEvent
from kai_ray.history.job_state import (
    ENDED,
    PUT,
    RUNNING,
    SUSPENDED,
    WAITING,
    Holding,
    JobState,
)
from kai_ray.history.spending import ADD, Payer, Spending

_CODE = {what: code for code, what in enumerate(WHAT)}
_PLACED = {_CODE[w] for w in ("started", "resumed", "grew", "shrunk", "nominated", "evicted")}
_EVENT = (
    "INSERT INTO events (job, at_s, what, grp, gpus, held, pods, reason, message, nodes, for_whom) "
    "VALUES (?,?,?,?,?,?,?,?,?,?,?)"
)
_LONGEST_MESSAGE = 400
_LONG_LIST = 400
#: A replayed event this much later than the last one that is known may be the same.
_SAME_S = 1.0
#: Events that are kept while the file cannot be written.
MOST_EVENTS = 200_000


class Use(NamedTuple):
    """What a job does with its GPUs, in devices: `used` of the `known` part of what it holds."""

    held: float
    known: float
    used: float


class JobBook:
    """`look_up` finds a job that has ended, by its UID: it may begin again."""

    def __init__(self, look_up: Callable[[str], JobState | None]) -> None:
        self._look_up = look_up
        self._live: dict[str, JobState] = {}
        self._ended: dict[str, JobState] = {}  # and not written yet
        self._dirty: dict[int, JobState] = {}
        self._events: deque[tuple[Any, ...]] = deque()
        self._spending = Spending()
        self._next_id = 1
        self.lost = 0
        """Events that were given up since they could not be written for too long."""

    def load(self, jobs: Iterable[JobState], next_id: int, counted_s: float) -> None:
        """Jobs that had not ended; what they held is in the hours up to `counted_s` already."""
        self._next_id = next_id
        for job in jobs:
            self._live[job.uid] = job
            self._count_job(job, counted_s, spend=False)

    def live(self) -> list[JobState]:
        return list(self._live.values())

    def id_of(self, uid: str) -> int | None:
        job = self._live.get(uid)
        return job.id if job is not None else None

    # ------------------------------------------------------------------ events

    def take(self, event: JobEvent) -> None:
        job, known = self._job(event)
        if event.replayed and known and _told(job, event):
            self._hold(job, event)
            return
        self._count_job(job, event.at_s)
        job.queue, job.user, job.pool = event.queue, event.user, event.pool
        job.gpus = event.gpus or job.gpus
        self._hold(job, event)
        self._turn(job, event)
        job.last_s = max(job.last_s, event.at_s)
        self._write_event(job, event)
        self._dirty[job.id] = job
        if not job.live:
            self._live.pop(job.uid, None)
            self._ended[job.uid] = job

    def _job(self, event: JobEvent) -> tuple[JobState, bool]:
        job = self._live.get(event.uid)
        if job is not None:
            return job, True
        job = self._ended.get(event.uid) or self._look_up(event.uid)
        if job is not None:
            if event.replayed and event.at_s <= job.last_s + _SAME_S:
                return job, True
            self._live[job.uid] = job
            return job, True
        job = JobState(
            self._next_id,
            event.uid,
            event.namespace,
            event.name,
            event.kind,
            event.api_version,
            group=event.group,
            created_s=event.at_s,
            state_s=event.at_s,
            counted_s=event.at_s,
        )
        self._next_id += 1
        self._live[job.uid] = job
        return job, False

    def _hold(self, job: JobState, event: JobEvent) -> None:
        before = job.holding.get(event.group)
        now = Holding(event.gpus, event.held, event.types)
        if event.what == "ended" or (not event.held and event.what == "shrunk" and event.reason):
            job.holding.pop(event.group, None)
        elif event.replayed and not event.held and event.what != "evicted":
            return  # where it runs is not known yet
        elif before != now:
            job.holding[event.group] = now
            self._dirty[job.id] = job

    def _turn(self, job: JobState, event: JobEvent) -> None:
        at_s, payer = event.at_s, Payer(event.queue, event.user, job.kind)
        if not job.live and event.what != "ended":  # it is there again
            job.enter(WAITING, at_s)
            job.ended_s, job.outcome = None, ""
        match event.what:
            case "grouped" | "created":
                if job.state == SUSPENDED:
                    job.enter(WAITING, at_s)
            case "started" | "resumed":
                job.enter(RUNNING, at_s)
                job.started_s = job.started_s if job.started_s is not None else at_s
                job.starts += 1
                job.reason = job.message = ""
                self._spending.count(payer, at_s, "started")
            case "evicted":
                job.evictions += 1
                self._spending.count(payer, at_s, "evicted")
                self._stop(job, event)
            case "interrupted":
                job.interruptions += 1
                self._stop(job, event)
            case "suspended":
                job.enter(SUSPENDED, at_s)
            case "waits" if job.state != RUNNING:
                job.reason, job.message = event.reason, event.message[:_LONGEST_MESSAGE]
                if job.state == SUSPENDED and event.reason != "Suspended":
                    job.enter(WAITING, at_s)
            case "ended":
                job.enter(ENDED, at_s)
                job.ended_s, job.outcome = at_s, event.reason
                job.reason, job.message = "", event.message[:_LONGEST_MESSAGE]
                job.holding.clear()
                self._spending.count(payer, at_s, "ended")
                if event.reason == "Failed":
                    self._spending.count(payer, at_s, "failed")
            case _:
                pass

    def _stop(self, job: JobState, event: JobEvent) -> None:
        """Back in the queue, unless other gangs of it run."""
        if job.holds <= 0 or len(job.holding) <= 1:
            job.enter(WAITING, event.at_s)
        job.reason, job.message = event.reason, event.message[:_LONGEST_MESSAGE]

    def _write_event(self, job: JobState, event: JobEvent) -> None:
        code = _CODE[event.what]
        group = "" if event.group == job.group else event.group
        nodes = pack_nodes(event.nodes) if code in _PLACED else ""
        self._events.append(
            (
                job.id,
                round(event.at_s, 3),
                code,
                group,
                event.gpus,
                event.held,
                event.pods,
                event.reason,
                event.message[:_LONGEST_MESSAGE],
                nodes,
                event.for_whom,
            )
        )
        if len(self._events) > MOST_EVENTS:
            self._events.popleft()
            self.lost += 1

    def gone(self, present: set[str], at_s: float, counted_s: float) -> int:
        """Ends jobs of which nothing is left; they went while nobody looked."""
        missing = [job for uid, job in self._live.items() if uid not in present]
        for job in missing:
            end_s = max(job.last_s, min(counted_s, at_s))
            self._count_job(job, end_s)
            job.enter(ENDED, end_s)
            job.ended_s, job.outcome, job.reason = end_s, "Deleted", ""
            job.message = "it went while the scheduler was down"
            job.holding.clear()
            job.last_s = end_s
            row = (job.id, end_s, _CODE["ended"], "", job.gpus, 0.0, 0, "Deleted", job.message)
            self._events.append((*row, "", ""))
            self._dirty[job.id] = job
            del self._live[job.uid]
        return len(missing)

    # ------------------------------------------------------------------ what is held

    def count(self, now_s: float) -> None:
        """Adds up what is held and waited for until now."""
        for job in self._live.values():
            self._count_job(job, now_s)

    def begin_at(self, now_s: float) -> None:
        """Counts from here on: the clock was set back, or the machine slept."""
        for job in self._live.values():
            job.counted_s = now_s

    def _count_job(self, job: JobState, to_s: float, spend: bool = True) -> None:
        begin_s = job.counted_s
        if to_s <= begin_s:
            return
        job.counted_s = to_s
        if not job.live:
            return
        who = (job.queue, job.user, job.kind)
        for holding in job.holding.values():
            for product, pool, gpus in holding.by_type():
                slot = (product, pool)
                job.held[slot] = job.held.get(slot, 0.0) + gpus * (to_s - begin_s)
                if spend and gpus:
                    self._spending.over(Payer(*who, pool, product), begin_s, to_s, gpu_s=gpus)
        if spend and job.state == WAITING:
            self._spending.over(Payer(*who), begin_s, to_s, waited_s=1.0, waited_gpu_s=job.gpus)

    def use(self, uses: Mapping[str, Use], begin_s: float, end_s: float) -> None:
        """What jobs (by UID) did with their GPUs over a time."""
        for uid, use in uses.items():
            job = self._live.get(uid)
            if job is None or end_s <= begin_s:
                continue
            # It may have started after the last look.
            since_s = max(begin_s, min(job.state_s, end_s)) if job.state == RUNNING else begin_s
            seconds = end_s - since_s
            job.used_gpu_s += use.used * seconds
            job.known_gpu_s += use.known * seconds
            types = [t for h in job.holding.values() for t in h.by_type()]
            whole = sum(gpus for _, _, gpus in types)
            for product, pool, gpus in types if whole > 0 else ():
                part = gpus / whole
                self._spending.over(
                    Payer(job.queue, job.user, job.kind, pool, product),
                    since_s,
                    end_s,
                    used_gpu_s=use.used * part,
                    known_gpu_s=use.known * part,
                )

    def keep_use(self, uids: Iterable[str]) -> None:
        """Marks jobs to be written although nothing has happened to them."""
        for uid in uids:
            job = self._live.get(uid)
            if job is not None:
                self._dirty[job.id] = job

    # ------------------------------------------------------------------ to the file

    def statements(self) -> list[tuple[str, list[tuple[Any, ...]]]]:
        """What the file lacks, to be written as one."""
        made: list[tuple[str, list[tuple[Any, ...]]]] = []
        if self._dirty:
            made.append((PUT, [job.row() for job in self._dirty.values()]))
        if self._events:
            made.append((_EVENT, list(self._events)))
        if self._spending:
            made.append((ADD, list(self._spending.rows())))
        return made

    def written(self) -> None:
        self._dirty, self._ended = {}, {}
        self._events.clear()
        self._spending.clear()


def _told(job: JobState, event: JobEvent) -> bool:
    """Whether a replayed event is in the history already."""
    if event.what in ("created", "grouped"):
        return job.live or event.at_s <= job.last_s + _SAME_S
    if event.what == "started" and job.state == RUNNING:
        return True
    if event.what == "waits" and job.reason == event.reason:
        return True
    return event.at_s <= job.last_s + _SAME_S


def pack_nodes(nodes: tuple[str, ...]) -> str | bytes:
    text = ",".join(nodes)
    return text if len(text) <= _LONG_LIST else zlib.compress(text.encode(), 6)


def unpack_nodes(packed: str | bytes) -> tuple[str, ...]:
    text = packed if isinstance(packed, str) else zlib.decompress(packed).decode()
    return tuple(text.split(",")) if text else ()

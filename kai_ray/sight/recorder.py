"""Writes down what is seen: the lives of jobs as they happen, figures at regular times.

In real time this is done by a thread of its own, so that no disk is ever waited for; in virtual
time by the loop, so that a simulation is recorded exactly. Without a file, or while it cannot be
written, everything else goes on and `problem` says what is wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

import numpy as np

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock, steady_s
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.suspensions import BY_GROUP, group_texts
from kai_ray.history.families import CLUSTER, JOBS, NODES, QUEUES
from kai_ray.history.file import HistoryError
from kai_ray.history.job_book import Use
from kai_ray.history.job_event import JobEvent
from kai_ray.history.journal import HistorySettings, Journal
from kai_ray.history.reader import HistoryReader
from kai_ray.sight.sampling import (
    cluster_sample,
    job_uses,
    node_sample,
    pods_of,
    queue_sample,
)
from kai_ray.sight.sight import Sight

log = logging.getLogger(__name__)

#: Between two looks at queues.
INTERVAL_S = QUEUES.levels[0].step_s
#: Events are gathered for so long before they are written.
_GATHER_S = 0.5
#: A file that cannot be opened is tried again this often.
_OPEN_AGAIN_S = 10.0
#: Events that wait for a file that cannot be opened.
_MOST_WAITING = 100_000
_USE_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0
_MISSED = 10  # intervals: a longer silence is a gap, not time that was held
_WORK = "work"


class Recorder:
    """A controller for virtual time; key "work"."""

    name = "history"

    def __init__(self, sight: Sight, settings: HistorySettings) -> None:
        self.settings = settings
        self._sight = sight
        self._events: deque[JobEvent] = deque(maxlen=_MOST_WAITING)
        self._journal: Journal | None = None
        self._fault = ""
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._open_at = 0.0  # steady seconds
        self._known = False  # whether the file was compared with what is there
        self._dropped = 0  # events, while there was no file to write them to
        self._next_sample_s = self._next_use_s = self._next_forget_s = 0.0
        self._sampled_s = self._used_s = 0.0
        self._memory: dict[str, list[tuple[Use, float]]] = {}
        self._kept_s = 0

    @property
    def problem(self) -> str:
        """Why the file is behind or missing, and what mends it; "" while all is well."""
        return self._fault or (self._journal.problem if self._journal is not None else "")

    def reader(self) -> HistoryReader:
        return HistoryReader(self.settings.path)

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        pods = runtime.informer(kinds.POD)
        pods.add_index(BY_GROUP, group_texts)
        self._pods = pods_of(pods)
        self._virtual = isinstance(runtime.clock, VirtualClock)
        self._sight.subscribe(self._happened)
        self._sight.on_cycle(lambda cycle: self._begin())

    # ------------------------------------------------------------------ when

    def _happened(self, event: JobEvent) -> None:
        self._dropped += len(self._events) == _MOST_WAITING
        self._events.append(event)
        if self._virtual:
            self._runtime.enqueue(self.name, _WORK, _GATHER_S)
        else:
            self._wake.set()

    def _begin(self) -> None:
        """With the first cycle: a standby sees none and leaves the file to the leader."""
        if self._virtual:
            self._runtime.enqueue(self.name, _WORK, _GATHER_S)
        elif self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name="kai-history", daemon=True)
            self._thread.start()

    def reconcile(self, key: str) -> float | None:
        return self._work() if self._virtual and not self._closing else None

    def _run(self) -> None:
        while not self._closing:
            try:
                wait_s = self._work()
            except Exception:  # a record that cannot be made must not end the recording
                log.exception("recording stumbled; again in a while")
                wait_s = _OPEN_AGAIN_S
            self._wake.clear()
            if self._events and wait_s > _GATHER_S:
                wait_s = _GATHER_S
            if self._wake.wait(wait_s) and not self._closing:
                time.sleep(_GATHER_S)

    def close(self) -> None:
        """Writes the rest and lets the file go."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            if self._thread.is_alive():
                return  # a disk that hangs: the file stays as it is
        if self._journal is None:
            return
        self._take()
        self._journal.advance(self._runtime.clock.now(), self._longest_s, last=True)
        self._journal.close()
        self._journal = None

    # ------------------------------------------------------------------ what

    def _work(self) -> float:
        """Does what is due; seconds until more is."""
        now = self._runtime.clock.now()
        journal = self._opened(now)
        if journal is None or self._sight.cycle is None:
            return _OPEN_AGAIN_S
        self._take()
        if not self._known:
            self._known = True
            self._compare(journal, now)
        if now < self._sampled_s - 1.0:  # the clock was set back
            self._next_sample_s = self._next_use_s = self._next_forget_s = 0.0
        if now >= self._next_use_s:
            self._use(journal, now)
        if now >= self._next_sample_s:
            self._sample(journal, now)
        if journal.commit():
            journal.roll_up(now)
            if now >= self._next_forget_s:
                self._next_forget_s = now + _FORGET_EVERY_S
                journal.forget(now)
        return max(0.01, min(self._next_sample_s, self._next_use_s) - now)

    def _compare(self, journal: Journal, now: float) -> None:
        """Once for each file: jobs that it does not know are told to it, others may have gone."""
        lives = self._sight.lives.all()
        gone = journal.jobs.gone({life.uid for life in lives}, now, journal.counted_s)
        if gone:
            journal.note(now, f"{gone} jobs went while nothing was recorded")
        if self._dropped:
            journal.note(now, f"{self._dropped} records are lost: the file could not be opened")
            self._dropped = 0
        for life in lives:
            if life.phase != "ended" and journal.jobs.id_of(life.uid) is None:
                journal.jobs.take(life.event(life.created_s, "grouped"))
                if life.runs:
                    journal.jobs.take(life.event(life.since_s, "started"))

    @property
    def _longest_s(self) -> float:
        return _MISSED * INTERVAL_S

    def _opened(self, now: float) -> Journal | None:
        if self._journal is not None and self._journal.misplaced:
            log.warning("history file %s was moved away: a new one begins", self.settings.path)
            self._journal.close()
            self._journal, self._known, self._open_at = None, False, 0.0
        if self._journal is None and steady_s() >= self._open_at:
            self._open_at = steady_s() + _OPEN_AGAIN_S
            try:
                self._journal = Journal(self.settings, now)
            except HistoryError as error:
                if str(error) != self._fault:
                    log.warning("%s; nothing is recorded meanwhile", error)
                self._fault = str(error)
            else:
                self._fault = ""
        return self._journal

    def _take(self) -> None:
        assert self._journal is not None
        while self._events:
            self._journal.jobs.take(self._events.popleft())

    def _sample(self, journal: Journal, now: float) -> None:
        self._next_sample_s = (now // INTERVAL_S + 1) * INTERVAL_S
        journal.advance(now, self._longest_s)
        sight, samples = self._sight, journal.samples
        samples.add(QUEUES, now, *queue_sample(sight))
        samples.add(CLUSTER, now, *cluster_sample(sight, self._sampled_s, now))
        step = NODES.levels[0].step_s
        if now // step != self._sampled_s // step:
            samples.add(NODES, now, *node_sample(sight, now))
        self._sampled_s = now

    def _use(self, journal: Journal, now: float) -> None:
        """What jobs do with their GPUs: looked at each minute, kept as means of a longer step."""
        begin, self._used_s = self._used_s, now
        self._next_use_s = (now // _USE_EVERY_S + 1) * _USE_EVERY_S
        if not self._sight.gpu.use.nodes:
            return
        uses: dict[str, Use] = {}
        for uid, use, memory in job_uses(self._sight, self._pods, now):
            uses[uid] = use
            self._memory.setdefault(uid, []).append((use, memory))
        if begin and 0 < now - begin <= self._longest_s:
            journal.jobs.use(uses, begin, now)
        step = JOBS.levels[0].step_s
        bucket = int(now // step) * step
        if bucket != self._kept_s:
            self._keep_uses(journal, self._kept_s or bucket)
            self._kept_s = bucket

    def _keep_uses(self, journal: Journal, at_s: int) -> None:
        found = [
            (number, rows)
            for uid, rows in self._memory.items()
            if (number := journal.jobs.id_of(uid)) is not None
        ]
        journal.jobs.keep_use(self._memory)
        self._memory = {}
        if not found:
            return
        means = np.array(
            [
                [
                    sum(getattr(use, name) for use, _ in rows) / len(rows)
                    for name in ("held", "known", "used")
                ]
                + [sum(memory for _, memory in rows) / len(rows)]
                for _, rows in found
            ]
        ).T
        ids = np.array([number for number, _ in found], dtype=np.int32)
        names = ("held", "known", "used", "used_mib")
        journal.samples.add_ids(JOBS, at_s, ids, dict(zip(names, means, strict=True)))

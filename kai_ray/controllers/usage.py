"""Fairness over time: counts what queues and users hold, and tells the encoder what they had.

Every cycle says what is held from then on; a tick adds it up, writes it to the history file and
refreshes the shares. Prometheus, where it is the source, is asked in a thread of its own: whatever
is slow or broken there, the last answer goes on being used and decisions never wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

import numpy as np

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import steady_s
from kai_ray.cluster.port import ApiError, Write
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import told_usage
from kai_ray.controllers.cycle import Cycle
from kai_ray.encode import Encoder
from kai_ray.encode.settings import in_shard
from kai_ray.history.config import UsageConfig
from kai_ray.history.file import HistoryError, HistoryFile
from kai_ray.history.prometheus import PrometheusError, PrometheusUsage
from kai_ray.history.usage import CAPACITY, Amounts, Holder, Usage, UsageRecord
from kai_ray.scheduler.gpu.prices import held, priced
from kai_ray.scheduler.snapshot import ALLOCATED, QUEUE_RESOURCES, Floats, Snapshot

log = logging.getLogger(__name__)

_HELD = np.array([int(s) for s in ALLOCATED])


class UsageController:
    """Controller with the one key "tick"."""

    def __init__(
        self,
        config: UsageConfig,
        encoder: Encoder,
        name: str = "usage",
        scheduler: str = "scheduler",
        asked: Callable[[float], None] | None = None,
    ) -> None:
        """`asked` is told how many seconds each answer of Prometheus took."""
        self.name = name
        self._asked = asked
        self._scheduler = scheduler
        self._retired = False
        self.config = config
        self._encoder = encoder
        self._record: UsageRecord | None = None
        self._remote: PrometheusUsage | None = None
        self._thread: threading.Thread | None = None
        self._answer: tuple[float, Usage] | None = None
        self._fault = ""
        self._waiting = False

    @property
    def problem(self) -> str:
        """What is wrong at present, with the mend; "" = nothing."""
        if self._remote is not None:
            return self._fault
        return (self._record.problem if self._record else "") or self._fault

    @property
    def usage(self) -> Usage:
        """What the scheduler goes by now."""
        return self._encoder.usage

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queues = runtime.informer(kinds.QUEUE)
        config, now = self.config, runtime.clock.now()
        if config.prometheus:
            self._remote = PrometheusUsage(
                config.prometheus,
                config.settings,
                dict(config.metrics),
                config.resolution_s,
                config.timeout_s,
            )
        else:
            self._record = UsageRecord(config.settings, self._open())
            self._record.load(now)
        runtime.enqueue(self.name, "tick")

    def _open(self) -> HistoryFile | None:
        """Without its file the scheduler goes on: usage then begins anew with each start."""
        if self.config.file is None:
            return None
        try:
            return HistoryFile(self.config.file)
        except HistoryError as error:
            self._fault = str(error)
            log.warning("%s; usage is kept in memory only", error)
            return None

    def observe(self, cycle: Cycle) -> None:
        if self._retired:
            return
        self._waiting = bool(cycle.plan.waits)
        if self._record is not None:
            self._record.observe(self._runtime.clock.now(), holdings(cycle))

    def reconcile(self, key: str) -> float | None:
        if self._retired:
            return None
        now = self._runtime.clock.now()
        if self._record is not None:
            self._record.advance(now)
            self._record.flush(now)
            self._tell(self._record.usage(now))
        else:
            self._ask(now)
        return self.config.settings.interval_s

    def _tell(self, usage: Usage) -> None:
        self._encoder.set_usage(usage)
        mine = [q for q in self._queues if in_shard(q, self._encoder.config)]
        self._send(told_usage.writes(self._runtime.port, mine, usage))
        if self._waiting:  # else it counts from the next change on
            self._runtime.enqueue(self._scheduler, "cycle")

    def _send(self, writes: Iterable[Write]) -> None:
        """For people and tools: a write that fails is made up for by a later one."""
        made = list(writes)
        for outcome in self._runtime.port.batch(made) if made else ():
            if not isinstance(outcome, ApiError):
                self._queues.remember(outcome)

    def _ask(self, now: float) -> None:
        if self._answer is not None:
            at, usage = self._answer
            self._tell(usage)
            if now - at > self.config.stale_after_s:
                self._fault = self._fault or f"{self.config.prometheus}: no new answer for a while"
                log.warning("%s; the last usage is used", self._fault)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._fetch, args=(now,), daemon=True)
            self._thread.start()

    def _fetch(self, now: float) -> None:
        assert self._remote is not None
        begin_s = steady_s()
        try:
            answer = self._remote.usage(now)
        except PrometheusError as error:
            self._fault = str(error)
            log.warning("%s", error)
            return
        if self._asked is not None:
            self._asked(steady_s() - begin_s)
        first, self._answer, self._fault = self._answer is None, (now, answer), ""
        if first:
            self._runtime.enqueue(self.name, "tick")

    def retire(self) -> None:
        """Counts no more, and forgets what counted."""
        self.close()
        self._retired = True
        mine = [q for q in self._queues if in_shard(q, self._encoder.config)]
        self._send(told_usage.erased(self._runtime.port, mine))
        self._encoder.set_usage(Usage.none())

    def close(self) -> None:
        """Writes the rest and lets the file go."""
        if self._record is not None:
            self._record.advance(self._runtime.clock.now())
            self._record.close()


def holdings(cycle: Cycle) -> dict[Holder, Amounts]:
    """What every queue holds with those below it, every user in their queue, and the capacity."""
    encoded, snapshot = cycle.encoded, cycle.encoded.snapshot
    gangs, tasks = snapshot.gangs, snapshot.tasks
    rows = np.flatnonzero((tasks.gang >= 0) & np.isin(cycle.state, _HELD))
    rows = rows[gangs.queue[tasks.gang[rows]] >= 0]
    amounts = held(priced(snapshot), rows)
    queue, user = gangs.queue[tasks.gang[rows]], encoded.user[tasks.gang[rows]]
    found: dict[Holder, Amounts] = {}
    sums = _upwards(snapshot, queue, amounts)
    for row in np.flatnonzero(sums.any(axis=0)).tolist():
        found[Holder(encoded.names.queue(row))] = _amounts(sums[:, row])
    pairs, back = np.unique(
        queue.astype(np.int64) * (len(encoded.users) + 1) + user, return_inverse=True
    )
    back = back.reshape(-1)
    own = np.stack([np.bincount(back, a, pairs.shape[0]) for a in amounts]).astype(np.float64)
    for i, pair in enumerate(pairs.tolist()):
        row, code = divmod(pair, len(encoded.users) + 1)
        found[Holder(encoded.names.queue(row), encoded.users[code])] = _amounts(own[:, i])
    found[CAPACITY] = _amounts(snapshot.total)
    return found


def _upwards(snapshot: Snapshot, queue: np.ndarray, amounts: Floats) -> Floats:
    """[3, Q] sums with descendants."""
    count, parent = snapshot.queues.count, snapshot.queues.parent
    sums = np.stack([np.bincount(queue, a, minlength=count) for a in amounts]).astype(np.float64)
    sums = sums.reshape(QUEUE_RESOURCES, count)
    for row in range(count - 1, -1, -1):  # children come after their parents
        if parent[row] >= 0:
            sums[:, parent[row]] += sums[:, row]
    return sums


def _amounts(column: Floats) -> Amounts:
    cpu, memory, gpu = column.tolist()
    return cpu, memory, gpu

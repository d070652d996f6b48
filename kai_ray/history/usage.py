"""Usage over time: resource seconds per queue and per user, in time buckets.

What is held counts from one observation to the next. The numbers live in memory and are written to
the history file as they grow; without a file, or while it cannot be written, they go on growing in
memory and `problem` says so. Nothing here waits for a disk that is busy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kai_ray.history.file import HistoryError, HistoryFile
from kai_ray.history.window import UsageSettings

log = logging.getLogger(__name__)

#: millicores, bytes, GPUs
Amounts = tuple[float, float, float]


class Holder(NamedTuple):
    """`user` "" is the whole queue; queue "" the capacity of the cluster."""

    queue: str
    user: str = ""


CAPACITY = Holder("")


@dataclass(frozen=True, slots=True)
class Usage:
    """Parts of the cluster's capacity over the window, 0 to 1 (cpu, memory, gpu)."""

    queues: Mapping[str, Amounts]
    users: Mapping[Holder, Amounts]

    @staticmethod
    def none() -> Usage:
        return Usage({}, {})


_INSERT = "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT bucket_s, queue, user, cpu, memory, gpu FROM usage WHERE bucket_s >= ? ORDER BY 1"


class UsageRecord:
    """Times are seconds since 1970 of one clock; steps back are noticed and cost nothing."""

    def __init__(self, settings: UsageSettings, file: HistoryFile | None = None) -> None:
        self.settings = settings
        self.problem = ""
        """What is wrong with the file at present; "" = nothing, or there is none."""
        self.clock_steps = 0
        self._file = file
        self._codes: dict[Holder, int] = {}
        self._names: list[Holder] = []
        self._bucket = np.empty(0)
        self._code = np.empty(0, dtype=np.int64)
        self._amount = np.empty((0, 3))
        self._open: dict[int, dict[Holder, list[float]]] = {}
        self._dirty: set[int] = set()
        self._last_s: float | None = None
        self._holding: dict[Holder, Amounts] = {}

    def load(self, now_s: float) -> None:
        """Takes in what the file remembers of the window. A file that fails is given up."""
        if self._file is None:
            return
        first = self.settings.begin_s(now_s) - self.settings.bucket_s
        try:
            rows = self._file.read(_SELECT, (int(first),))
        except HistoryError as error:
            self._failed(error)
            return
        for bucket, queue, user, *amounts in rows:
            self._open.setdefault(bucket, {})[Holder(queue, user)] = list(amounts)
        self._close_buckets(None)

    def observe(self, now_s: float, holding: Mapping[Holder, Amounts]) -> None:
        """From now on, and until said otherwise, this is held (the capacity included)."""
        self.advance(now_s)
        self._holding = dict(holding)

    def advance(self, now_s: float) -> None:
        """Counts what is held up to now."""
        last, self._last_s = self._last_s, now_s
        if last is None:
            return
        if now_s < last:
            self.clock_steps += 1
            log.warning("the clock went back by %.0f s: usage counts from here on", last - now_s)
            return
        if now_s - last > 10 * self.settings.interval_s:
            # Nobody looked for so long (a suspended machine): what was held then is not known.
            last = now_s - self.settings.interval_s
        width = self.settings.bucket_s
        while last < now_s and self._holding:
            bucket = int(last // width) * width
            end = min(now_s, bucket + width)
            self._add(bucket, end - last)
            last = end

    def _add(self, bucket: int, seconds: float) -> None:
        table = self._open.get(bucket)
        if table is None:
            table = self._open[bucket] = self._take_back(bucket)
        self._dirty.add(bucket)
        for holder, amounts in self._holding.items():
            sums = table.setdefault(holder, [0.0, 0.0, 0.0])
            for r in range(3):
                sums[r] += amounts[r] * seconds

    def _take_back(self, bucket: int) -> dict[Holder, list[float]]:
        """A bucket that was closed already is opened again (a restart, a clock set back)."""
        mine = self._bucket == bucket
        if not mine.any():
            return {}
        rows = np.flatnonzero(mine)
        found = {self._names[int(self._code[i])]: self._amount[i].tolist() for i in rows}
        self._keep(~mine)
        return found

    def flush(self, now_s: float) -> None:
        """Writes what has grown, forgets what counts no more. Never raises."""
        self._close_buckets(int(now_s // self.settings.bucket_s) * self.settings.bucket_s)
        self._write()
        begin = self.settings.begin_s(now_s) - self.settings.bucket_s
        gone = self._bucket < begin
        if gone.any():
            self._keep(~gone)
            self._forget(begin)

    def usage(self, now_s: float) -> Usage:
        """Each holder's weighted sum over the capacity's; nothing while no capacity is known."""
        self._close_buckets(None)
        weight = self.settings.weights(self._bucket, now_s)
        count = len(self._names)
        sums = np.stack(
            [
                np.bincount(self._code, weight * self._amount[:, r], minlength=count)
                for r in range(3)
            ]
        )
        whole = self._codes.get(CAPACITY)
        if whole is None:
            return Usage.none()
        capacity = sums[:, whole][:, None]
        parts = np.divide(sums, capacity, out=np.zeros_like(sums), where=capacity > 0)
        queues: dict[str, Amounts] = {}
        users: dict[Holder, Amounts] = {}
        for holder, code in self._codes.items():
            cpu, memory, gpu = parts[:, code].tolist()
            if holder.user:
                users[holder] = (cpu, memory, gpu)
            elif holder.queue:
                queues[holder.queue] = (cpu, memory, gpu)
        return Usage(queues, users)

    def close(self) -> None:
        if self._file is not None:
            self._write()
            self._file.close()
            self._file = None

    def _close_buckets(self, before: int | None) -> None:
        """Moves buckets into the arrays; the present one, too, if `before` is None."""
        done = sorted(b for b in self._open if before is None or b < before)
        rows = [(b, self._code_of(h), *v) for b in done for h, v in self._open[b].items()]
        if not rows:
            return
        self._write()  # it knows open buckets only
        for bucket in done:
            del self._open[bucket]
        table = np.array(rows)
        self._bucket = np.concatenate([self._bucket, table[:, 0]])
        self._code = np.concatenate([self._code, table[:, 1].astype(np.int64)])
        self._amount = np.concatenate([self._amount, table[:, 2:]])

    def _code_of(self, holder: Holder) -> int:
        code = self._codes.get(holder)
        if code is None:
            code = self._codes[holder] = len(self._names)
            self._names.append(holder)
        return code

    def _keep(self, rows: np.ndarray) -> None:
        self._bucket, self._code, self._amount = (
            self._bucket[rows],
            self._code[rows],
            self._amount[rows],
        )

    def _rows(self, bucket: int) -> list[tuple[object, ...]]:
        table = self._open.get(bucket)
        if table is None:
            rows = np.flatnonzero(self._bucket == bucket)
            return [(bucket, *self._names[self._code[i]], *self._amount[i].tolist()) for i in rows]
        return [(bucket, *holder, *sums) for holder, sums in table.items()]

    def _write(self) -> None:
        if self._file is None:
            self._dirty.clear()
        if self._file is None or not self._dirty:
            return
        rows = [row for bucket in sorted(self._dirty) for row in self._rows(bucket)]
        try:
            self._file.write(_INSERT, rows)
        except HistoryError as error:
            self._failed(error)  # the buckets stay dirty: all of them are written next time
        else:
            self._dirty.clear()
            self.problem = ""

    def _forget(self, begin: float) -> None:
        if self._file is None:
            return
        try:
            self._file.write("DELETE FROM usage WHERE bucket_s < ?", [(int(begin),)])
        except HistoryError as error:
            self._failed(error)

    def _failed(self, error: HistoryError) -> None:
        if str(error) != self.problem:
            log.warning("%s; usage is kept in memory meanwhile", error)
        self.problem = str(error)

"""Reads the history file while another writes it.

Each question opens the file anew and sees one state of it: a file that was moved away, replaced or
is not there yet is answered for as it is now.
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kai_ray.history.families import CLUSTER, FAMILIES, JOBS, NODES, QUEUES
from kai_ray.history.file import APPLICATION_ID, HistoryError, damage, words
from kai_ray.history.job_book import unpack_nodes
from kai_ray.history.job_event import WHAT, JobEvent, What
from kai_ray.history.job_state import RUNNING, SELECT, WAITING, JobState, job_of
from kai_ray.history.rows import About, JobRow, Series, SpentRow
from kai_ray.history.schema import STEPS
from kai_ray.history.series import named, series
from kai_ray.history.spending import AMOUNTS

_FOREVER = math.inf
_EVENTS = (
    "SELECT e.at_s, e.what, j.uid, j.namespace, j.name, j.kind, j.api_version, "
    "CASE e.grp WHEN '' THEN j.grp ELSE e.grp END, j.queue, j.user, j.pool, "
    "e.gpus, e.held, e.pods, e.reason, e.message, e.nodes, e.for_whom "
    "FROM events e JOIN jobs j ON j.id = e.job"
)
#: What spending may be summed up by; "pool" is of nodes.
BY = ("queue", "user", "kind", "pool", "product")


class HistoryReader:
    """Every method may be called from any thread and raises HistoryError, which names the mend."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    # ------------------------------------------------------------------ jobs

    def jobs(
        self,
        since_s: float = 0.0,
        until_s: float = _FOREVER,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        user: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 1_000,
        offset: int = 0,
    ) -> list[JobRow]:
        """Jobs that lived at some time between, the youngest first. `limit` -1: all."""
        where = ["created_s < ?", "(ended_s IS NULL OR ended_s >= ?)"]
        values: list[Any] = [min(until_s, 1e18), since_s]
        asked = {"namespace": namespace, "queue": queue, "user": user, "kind": kind, "state": state}
        for column, value in asked.items():
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        query = f"{SELECT} WHERE {' AND '.join(where)} ORDER BY created_s DESC, id DESC"
        return self._jobs(f"{query} LIMIT ? OFFSET ?", (*values, limit, offset))

    def job(self, uid: str) -> JobRow | None:
        """By the UID of the workload."""
        found = self._jobs(f"{SELECT} WHERE uid = ?", (uid,))
        return found[0] if found else None

    def find(self, namespace: str, name: str, kind: str = "") -> list[JobRow]:
        """All that had this name, the youngest first."""
        query = f"{SELECT} WHERE namespace = ? AND name = ? AND (? = '' OR lower(kind) = lower(?))"
        return self._jobs(
            f"{query} ORDER BY created_s DESC, id DESC", (namespace, name, kind, kind)
        )

    def _jobs(self, query: str, values: Sequence[Any]) -> list[JobRow]:
        with self._open() as db:
            rows = _rows(db, self.path, query, values)
            now_s = _now(db, self.path)
        return [_job_row(job_of(row), now_s) for row in rows]

    def events(self, uid: str) -> list[JobEvent]:
        """The life of a job, oldest first."""
        return list(self._events(f"{_EVENTS} WHERE j.uid = ? ORDER BY e.id", (uid,)))

    def events_since(
        self,
        since_s: float,
        until_s: float = _FOREVER,
        *,
        what: Collection[What] = (),
        queue: str | None = None,
        limit: int = 1_000,
    ) -> list[JobEvent]:
        """What happened to all jobs, oldest first; with a limit, the first ones. -1: all."""
        return list(self.each_event(since_s, until_s, what=what, queue=queue, limit=limit))

    def each_event(
        self,
        since_s: float,
        until_s: float = _FOREVER,
        *,
        what: Collection[What] = (),
        queue: str | None = None,
        limit: int = -1,
    ) -> Iterator[JobEvent]:
        """The same one by one: all of them need no memory."""
        where, values = ["e.at_s >= ?", "e.at_s < ?"], [since_s, min(until_s, 1e18)]
        more: list[Any] = []
        if what:
            where.append(f"e.what IN ({','.join(str(WHAT.index(w)) for w in what)})")
        if queue is not None:
            where.append("j.queue = ?")
            more.append(queue)
        query = f"{_EVENTS} WHERE {' AND '.join(where)} ORDER BY e.at_s, e.id LIMIT ?"
        return self._events(query, (*values, *more, limit))

    def _events(self, query: str, values: Sequence[Any]) -> Iterator[JobEvent]:
        with self._open() as db:
            try:
                for at_s, what, *names, nodes, for_whom in db.execute(query, values):
                    on = unpack_nodes(nodes)
                    yield JobEvent(at_s, WHAT[what], *names, nodes=on, for_whom=for_whom)
            except (sqlite3.Error, IndexError, zlib.error) as error:
                raise HistoryError(damage(self.path, error)) from error

    # ------------------------------------------------------------------ figures

    def queues(
        self,
        since_s: float,
        until_s: float = _FOREVER,
        step_s: float | None = None,
        names: Collection[str] | None = None,
    ) -> Series:
        """GPUs (cpu in millicores, memory in bytes) of queues, in steps of about `step_s`."""
        return self._series(QUEUES.name, since_s, until_s, step_s, names)

    def nodes(
        self,
        since_s: float,
        until_s: float = _FOREVER,
        step_s: float | None = None,
        names: Collection[str] | None = None,
    ) -> Series:
        """GPUs of nodes: offered, held, in use (device time; NaN where nobody says)."""
        return self._series(NODES.name, since_s, until_s, step_s, names)

    def cluster(
        self, since_s: float, until_s: float = _FOREVER, step_s: float | None = None
    ) -> Series:
        """The same summed up for each node pool of the scheduler ("" = the default one)."""
        return self._series(CLUSTER.name, since_s, until_s, step_s, None)

    def gpu(
        self,
        uid: str,
        since_s: float = 0.0,
        until_s: float = _FOREVER,
        step_s: float | None = None,
    ) -> Series:
        """What a job held and used of its GPUs, in devices."""
        with self._open() as db:
            found = _rows(db, self.path, "SELECT id, created_s FROM jobs WHERE uid = ?", (uid,))
            names = {int(number): uid for number, _ in found}
            since_s = max(since_s, *(created for _, created in found), 0.0)
            return self._decode(db, JOBS.name, names, since_s, until_s, step_s)

    def _series(
        self,
        family: str,
        since_s: float,
        until_s: float,
        step_s: float | None,
        only: Collection[str] | None,
    ) -> Series:
        with self._open() as db:
            query = "SELECT id, name FROM names WHERE family = ?"
            names = named(_rows(db, self.path, query, (family,)), only)
            return self._decode(db, family, names, since_s, until_s, step_s)

    def _decode(
        self,
        db: sqlite3.Connection,
        family: str,
        names: dict[int, str],
        since_s: float,
        until_s: float,
        step_s: float | None,
    ) -> Series:
        def read(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            return _rows(db, self.path, query, values)

        now_s = _now(db, self.path)
        (first,) = read("SELECT min(at_s) FROM samples WHERE family = ?", (family,))[0]
        since_s = max(since_s, first or 0.0)
        try:
            return series(read, FAMILIES[family], names, since_s, until_s, step_s, now_s)
        except ValueError as error:
            raise HistoryError(damage(self.path, error)) from error

    # ------------------------------------------------------------------ what was spent

    def spent(
        self, since_s: float, until_s: float = _FOREVER, by: Sequence[str] = ("queue",)
    ) -> list[SpentRow]:
        """Sums by one or more of `BY`. An hour (a week ago and longer: a day) that is asked for in
        part counts in part.

        Raises ValueError for another name.
        """
        wrong = [name for name in by if name not in BY]
        if wrong:
            raise ValueError(f"spending is summed up by {', '.join(BY)}, not by {wrong[0]}")
        part = (
            "max(0.0, min(1.0, (min(:until, begin_s + span_s, :now) - max(:since, begin_s)) "
            "/ max(min(begin_s + span_s, :now) - begin_s, 1.0)))"
        )
        keys = ", ".join(by)
        sums = ", ".join(f"sum({name} * {part})" for name in AMOUNTS)
        query = (
            f"SELECT {keys + ', ' if by else ''}{sums} FROM spent "
            f"WHERE begin_s + span_s > :since AND begin_s < :until"
        )
        if by:
            query += f" GROUP BY {keys} ORDER BY {keys}"
        with self._open() as db:
            values = {
                "since": since_s,
                "until": min(until_s, 1e18),
                "now": _now(db, self.path),
            }
            try:
                rows = db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise HistoryError(words(self.path, error)) from error
        count = len(by)
        return [
            SpentRow(tuple(row[:count]), *(float(x) for x in row[count:]))
            for row in rows
            if row[count] is not None
        ]

    def about(self) -> About:
        with self._open() as db:

            def one(query: str) -> Any:
                return _rows(db, self.path, query, ())[0][0]

            first = [
                one("SELECT min(created_s) FROM jobs"),
                one("SELECT min(at_s) FROM samples"),
            ]
            notes = _rows(db, self.path, "SELECT at_s, text FROM notes ORDER BY rowid DESC", ())
            return About(
                version=len(STEPS),
                bytes=int(one("PRAGMA page_count")) * int(one("PRAGMA page_size")),
                first_s=min((float(x) for x in first if x is not None), default=None),
                last_s=_now(db, self.path),
                jobs=int(one("SELECT count(*) FROM jobs")),
                events=int(one("SELECT count(*) FROM events")),
                samples=int(one("SELECT count(*) FROM samples")),
                notes=tuple((float(at), str(text)) for at, text in notes),
            )

    # ------------------------------------------------------------------ the file

    def _open(self) -> closing[sqlite3.Connection]:
        if not self.path.exists():
            mend = "there is none yet: run the scheduler with --state, or name the file that it has"
            raise HistoryError(f"history file {self.path}: {mend}")
        if self.path.is_dir():
            raise HistoryError(f"history file {self.path}: it is a folder: name the file in it")
        db = None
        try:
            uri = f"file:{quote(str(self.path.absolute()))}?mode=ro"
            db = sqlite3.connect(uri, uri=True, timeout=2.0, isolation_level=None)
            owner = int(db.execute("PRAGMA application_id").fetchone()[0])
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
        except sqlite3.Error as error:
            if db is not None:
                db.close()
            raise HistoryError(words(self.path, error)) from error
        problem = _problem(owner, version)
        if problem:
            db.close()
            raise HistoryError(f"history file {self.path}: {problem}")
        db.execute("BEGIN")
        return closing(db)


def _problem(owner: int, version: int) -> str:
    if owner != APPLICATION_ID:
        return "belongs to another program: name another file"
    if version > len(STEPS):
        return (
            f"has version {version}, this program knows versions up to {len(STEPS)}: "
            "use a newer program or name another file"
        )
    if version < len(STEPS):
        return f"has version {version}: the scheduler brings it to {len(STEPS)} when it opens it"
    return ""


def _rows(
    db: sqlite3.Connection, path: Path, query: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    try:
        return db.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise HistoryError(words(path, error)) from error


def _now(db: sqlite3.Connection, path: Path) -> float:
    """Up to when the file has been written."""
    rows = _rows(db, path, "SELECT value FROM facts WHERE name = 'counted_s'", ())
    return float(rows[0][0]) if rows else 0.0


def _job_row(job: JobState, now_s: float) -> JobRow:
    """What goes on is counted up to when the file was written last."""
    held = dict(job.held)
    lasts = max(0.0, now_s - job.state_s)
    if job.live:
        for holding in job.holding.values():
            for product, pool, gpus in holding.by_type():
                more = gpus * max(0.0, now_s - job.counted_s)
                held[product, pool] = held.get((product, pool), 0.0) + more
    return JobRow(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        kind=job.kind,
        api_version=job.api_version,
        queue=job.queue,
        user=job.user,
        pool=job.pool,
        state=job.state,
        outcome=job.outcome,
        reason=job.reason,
        message=job.message,
        gpus=job.gpus,
        created_s=job.created_s,
        started_s=job.started_s,
        ended_s=job.ended_s,
        waited_s=job.waited_s + (lasts if job.state == WAITING else 0.0),
        ran_s=job.ran_s + (lasts if job.state == RUNNING else 0.0),
        starts=job.starts,
        evictions=job.evictions,
        interruptions=job.interruptions,
        held_gpu_s=sum(held.values()),
        used_gpu_s=job.used_gpu_s,
        known_gpu_s=job.known_gpu_s,
        by_type=tuple((*slot, seconds) for slot, seconds in sorted(held.items())),
    )

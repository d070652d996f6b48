"""The one who writes the history: takes events and figures, and brings them to the file.

What cannot be written is kept in memory, up to a bound, and written when it can be. Each commit is
whole: a process that is killed loses what it had not committed and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kai_ray.history.families import DAY_S, FAMILIES
from kai_ray.history.file import HistoryError, HistoryFile
from kai_ray.history.job_book import JobBook
from kai_ray.history.job_event import JobEvent
from kai_ray.history.job_state import SELECT, JobState, job_of
from kai_ray.history.samples import Samples
from kai_ray.history.spending import HOURS_KEPT_S, ROLL_UP, ROLLED_UP

log = logging.getLogger(__name__)

_FACT = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"
_NOTE = "INSERT INTO notes (at_s, text) VALUES (?, ?)"
_BATCH = 2_000
_COUNT_EVERY_S = 60.0
_MOST_NOTES = 200


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """`keep_s`: jobs that ended longer ago are forgotten; figures have terms of their own below it.

    `most_bytes`: a file that grows beyond keeps less of the past.
    """

    path: Path
    keep_s: float = 30 * DAY_S
    most_bytes: int = 2 << 30


class Journal:
    """Not safe for several threads. Nothing raises but the start: `problem` tells."""

    def __init__(self, settings: HistorySettings, now_s: float) -> None:
        """Opens the file and goes on from it. Raises HistoryError."""
        self.settings = settings
        self.problem = ""
        """Why the file is behind; "" while it is not."""
        self._file = HistoryFile(settings.path, "jobs", wait_s=2.0)
        try:
            self.jobs = JobBook(self._job_of_uid)
            self.samples = Samples()
            self._notes: list[tuple[float, str]] = []
            self._lost = 0
            self._last_s = self._load(now_s)
        except BaseException:
            self._file.close()
            raise

    def _load(self, now_s: float) -> float:
        facts = dict(self._file.read("SELECT name, value FROM facts"))
        self.counted_s = float(facts.get("counted_s") or now_s)
        (top,) = self._file.read("SELECT coalesce(max(id), 0) FROM jobs")[0]
        live = self._file.read(f"{SELECT} WHERE ended_s IS NULL")
        self.jobs.load([job_of(row) for row in live], int(top) + 1, self.counted_s)
        self.samples.load(self._file)
        if facts:
            away_s = now_s - self.counted_s
            if away_s >= 0:
                self.note(now_s, f"recording goes on after {away_s:.0f} s")
            else:
                self._went_back(now_s, -away_s)
        else:
            self.note(now_s, "recording begins")
        return now_s

    def _job_of_uid(self, uid: str) -> JobState | None:
        try:
            rows = self._file.read(f"{SELECT} WHERE uid = ?", (uid,))
        except HistoryError:
            return None
        return job_of(rows[0]) if rows else None

    # ------------------------------------------------------------------ taking in

    def take(self, events: Iterable[JobEvent]) -> None:
        for event in events:
            self.jobs.take(event)

    def note(self, at_s: float, text: str) -> None:
        """Something that readers of the figures should know."""
        self._notes.append((at_s, text))
        del self._notes[:-_MOST_NOTES]

    def advance(self, now_s: float, longest_s: float, last: bool = False) -> None:
        """Adds up what is held, once a minute; `last`: to the end. After a clock was set back it
        counts from here on.

        So does one that jumped by more than `longest_s`: the machine slept, and so did the jobs.
        """
        before_s, self._last_s = self._last_s, now_s
        if now_s < before_s - 1.0:
            self._went_back(now_s, before_s - now_s)
        elif now_s > before_s + longest_s:
            self.note(now_s, f"nothing was recorded for {now_s - before_s:.0f} s")
            self.jobs.count(before_s)
            self.jobs.begin_at(now_s)
        if now_s >= self.counted_s + _COUNT_EVERY_S or last:
            self.jobs.count(now_s)
            self.counted_s = now_s

    def _went_back(self, now_s: float, by_s: float) -> None:
        self.note(now_s, f"the clock went back by {by_s:.0f} s: figures of that time are replaced")
        self.jobs.begin_at(now_s)
        self.counted_s = now_s

    # ------------------------------------------------------------------ to the file

    def commit(self) -> bool:
        """Writes what the file lacks, as a whole. False: later, `problem` says why."""
        statements = [*self.jobs.statements(), *self.samples.statements()]
        lost = self.jobs.lost + self.samples.lost
        notes = [*self._notes, *self._losses(lost)]
        if notes:
            statements.append((_NOTE, notes))
        statements.append((_FACT, [("counted_s", self.counted_s)]))
        try:
            self._file.write_all(statements)
        except HistoryError as error:
            self._failed(error)
            return False
        self.jobs.written()
        self.samples.written()
        self._notes, self._lost = [], lost
        if self.problem:
            log.info("history file %s is written again", self.settings.path)
        self.problem = ""
        return True

    def _losses(self, lost: int) -> list[tuple[float, str]]:
        if lost == self._lost:
            return []
        text = f"{lost - self._lost} records are lost: the file could not be written for long"
        return [(self._last_s, text)]

    def _failed(self, error: HistoryError) -> None:
        if str(error) != self.problem:
            log.warning("%s; what happens is kept in memory meanwhile", error)
        self.problem = str(error)

    def roll_up(self, now_s: float) -> bool:
        """Brings the roll-ups up to date; True if more is left to do."""
        try:
            return self.samples.roll_up(self._file, now_s)
        except HistoryError as error:
            self._failed(error)
            return False

    @property
    def misplaced(self) -> bool:
        """Whether the file was moved away or deleted while it is open."""
        return self._file.misplaced

    # ------------------------------------------------------------------ forgetting

    def forget(self, now_s: float) -> None:
        """Removes what is older than its term, and more where the file is too large."""
        try:
            self._forget(now_s, 1.0)
            share = 1.0
            while self._bytes() > self.settings.most_bytes and share > 0.05:
                share *= 0.8
                self._forget(now_s, share)
            if share < 1.0:
                days = self.settings.keep_s * share / DAY_S
                self.note(now_s, f"the file was too large: it keeps {days:.1f} days")
            self._file.tidy()
        except HistoryError as error:
            self._failed(error)

    def _forget(self, now_s: float, share: float) -> None:
        for family in FAMILIES.values():
            for level in family.levels:
                keep_s = min(level.keep_s, self.settings.keep_s) * share
                self._delete(
                    "DELETE FROM samples WHERE rowid IN (SELECT rowid FROM samples WHERE "
                    "family = ? AND step_s = ? AND at_s < ? LIMIT ?)",
                    (family.name, level.step_s, int(now_s - keep_s)),
                )
        before = now_s - self.settings.keep_s * share
        for statement in (
            "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at_s < ? LIMIT ?)",
            "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ended_s < ? LIMIT ?)",
        ):
            self._delete(statement, (before,))
        day = int((now_s - HOURS_KEPT_S) // DAY_S) * DAY_S
        self._file.write_all([(ROLL_UP, [(day,)]), (ROLLED_UP, [(day,)])])
        self._file.write("DELETE FROM spent WHERE begin_s < ?", [(int(before),)])
        self._file.write("DELETE FROM notes WHERE at_s < ?", [(before,)])

    def _delete(self, statement: str, values: tuple[object, ...]) -> None:
        """In small steps, so that nobody waits long for the file."""
        while self._file.delete(statement, (*values, _BATCH)) == _BATCH:
            pass

    def _bytes(self) -> int:
        pages, free, size = (
            int(self._file.read(f"PRAGMA {name}")[0][0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def close(self) -> None:
        self.commit()
        self._file.close()

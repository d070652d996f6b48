"""The history file: SQLite in WAL mode, one writer, any number of readers.

The version of its tables is SQLite's `user_version`, and each step from one version to the next is
an entry of `schema.STEPS`. Opening says plainly what is wrong with a file that cannot be used. A
process has one lock on a file and may open it once for each *part* that it writes (usage, jobs).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kai_ray.history.schema import STEPS

#: "KAIR" as SQLite's application_id: which program a file belongs to.
APPLICATION_ID = 0x4B414952


class HistoryError(Exception):
    """The file cannot be used, or not now; the text says why and what mends it."""


#: Of a write in one transaction: the statement and its rows.
Statement = tuple[str, Sequence[Sequence[Any]]]


class HistoryFile:
    """An open history file. Every method raises HistoryError and nothing else.

    `wait_s` is how long a write waits for one of another part to end.
    """

    def __init__(self, path: str | Path, part: str = "usage", wait_s: float = 0.1) -> None:
        """Takes the file for writing. Raises HistoryError."""
        self.path = Path(path)
        self._lock = _Lock.take(self.path, part)
        try:
            self._db = _open(self.path, wait_s)
        except BaseException:
            self._lock.free(part)
            raise
        self._part = part
        self._number = self.path.stat().st_ino

    @property
    def version(self) -> int:
        return len(STEPS)

    @property
    def misplaced(self) -> bool:
        """Whether another file, or none, is there now."""
        try:
            return self.path.stat().st_ino != self._number
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """All rows or none: a file that is busy or full is an error."""
        self.write_all([(statement, list(rows))])

    def write_all(self, statements: Iterable[Statement]) -> None:
        """All of them or nothing."""
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                for statement, rows in statements:
                    self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            raise HistoryError(words(self.path, error)) from error
        except OverflowError as error:  # a figure that is no number of SQLite's
            raise HistoryError(f"history file {self.path}: {error}") from error

    def delete(self, statement: str, values: Sequence[Any]) -> int:
        """Rows that went."""
        try:
            with self._db:
                return self._db.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise HistoryError(words(self.path, error)) from error

    def tidy(self) -> None:
        """Gives room back to the disk and ends the log of what was written."""
        try:
            # As a script: of a statement without columns only the first step would be done.
            self._db.executescript("PRAGMA incremental_vacuum(8192);")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise HistoryError(words(self.path, error)) from error

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(words(self.path, error)) from error

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._lock.free(self._part)


class _Lock:
    """The lock of the one process that writes a file; the system frees it when that ends."""

    _held: ClassVar[dict[Path, _Lock]] = {}
    _guard = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = _locked(path)
        self._parts: set[str] = set()

    @classmethod
    def take(cls, path: Path, part: str) -> _Lock:
        place = Path(os.path.abspath(path))
        with cls._guard:
            lock = cls._held.get(place)
            if lock is None:
                lock = cls._held[place] = _Lock(place)
            elif part in lock._parts:
                mend = "this process writes it already: name another file"
                raise HistoryError(f"history file {path}: {mend}")
            lock._parts.add(part)
            return lock

    def free(self, part: str) -> None:
        with self._guard:
            self._parts.discard(part)
            if not self._parts and self._held.get(self._path) is self:
                del self._held[self._path]
                with contextlib.suppress(OSError):
                    os.close(self._number)


def _locked(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        mend = "name a file in a folder that can be written"
        raise HistoryError(f"history file {path}: {error.strerror}: {mend}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        mend = "another process writes it: stop that one or name another file"
        raise HistoryError(f"history file {path}: {mend}") from error
    return lock


def _open(path: Path, wait_s: float) -> sqlite3.Connection:
    try:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # names of jobs are not for all
        # Used by one thread at a time, but a close may come from another.
        db = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise HistoryError(words(path, error)) from error
    except OSError as error:
        mend = "name a file in a folder that can be written"
        raise HistoryError(f"history file {path}: {error.strerror}: {mend}") from error
    try:
        _prepare(db, path)
    except sqlite3.Error as error:
        db.close()
        raise HistoryError(words(path, error)) from error
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    owner = int(db.execute("PRAGMA application_id").fetchone()[0])
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    tables = int(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if owner not in (0, APPLICATION_ID) or (owner == 0 and tables):
        raise HistoryError(f"history file {path}: belongs to another program: name another file")
    if version > len(STEPS):
        raise HistoryError(
            f"history file {path}: has version {version}, this program knows versions up to "
            f"{len(STEPS)}: use a newer program or name another file"
        )
    if not tables:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # so that a file can become smaller again
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    for number in range(version, len(STEPS)):
        # One transaction each, so that a kill in between leaves a version that is whole.
        db.executescript(
            f"BEGIN IMMEDIATE;{STEPS[number]}PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {number + 1};COMMIT;"
        )


def damage(path: Path, error: Exception) -> str:
    """What to say of rows that make no sense."""
    if isinstance(error, sqlite3.Error):
        return words(path, error)
    return f"history file {path}: it is damaged: move it away, a new one is started ({error})"


def words(path: Path, error: sqlite3.Error) -> str:
    """What is wrong with the file and what mends it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    mend = {
        sqlite3.SQLITE_FULL: "the disk is full: free some space",
        sqlite3.SQLITE_BUSY: "another program holds it: it is tried again",
        sqlite3.SQLITE_LOCKED: "another program holds it: it is tried again",
        sqlite3.SQLITE_READONLY: "it is read-only: make it writable",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check folder and permissions",
        sqlite3.SQLITE_NOTADB: "it is no SQLite file: move it away or name another file",
        sqlite3.SQLITE_CORRUPT: "it is damaged: move it away, a new one is started",
        sqlite3.SQLITE_IOERR: "reading or writing it failed: check the disk",
    }.get(code, str(error))
    return f"history file {path}: {mend}"

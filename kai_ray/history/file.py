"""The history file: SQLite in WAL mode, one writer, any number of readers.

The version of its tables is SQLite's `user_version`, and each step from one version to the next is
an entry of `STEPS`: a later part of the project appends steps and never changes one. Opening says
plainly what is wrong with a file that cannot be used; writing never waits for anybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

#: "KAIR" as SQLite's application_id: which program a file belongs to.
APPLICATION_ID = 0x4B414952

#: Step i leads from version i to i + 1.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE usage (
        bucket_s INTEGER NOT NULL,  -- start of the time bucket, seconds since 1970
        queue TEXT NOT NULL,        -- '' = the capacity of the cluster
        user TEXT NOT NULL,         -- '' = the whole queue, queues below it included
        cpu REAL NOT NULL,          -- millicore seconds
        memory REAL NOT NULL,       -- byte seconds
        gpu REAL NOT NULL,          -- device seconds
        PRIMARY KEY (bucket_s, queue, user)
    ) WITHOUT ROWID;
    """,
)


class HistoryError(Exception):
    """The file cannot be used, or not now; the text says why and what mends it."""


class HistoryFile:
    """An open history file. Every method raises HistoryError and nothing else."""

    def __init__(self, path: str | Path) -> None:
        """Takes the file for writing. Raises HistoryError."""
        self.path = Path(path)
        self._lock = _take(self.path)
        try:
            self._db = _open(self.path)
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def version(self) -> int:
        return len(STEPS)

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """All rows or none, at once: a file that is busy or full is an error, never a wait."""
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            raise HistoryError(_words(self.path, error)) from error

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(_words(self.path, error)) from error

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _take(path: Path) -> int:
    """The lock of the one writer; freed by the system when the process ends."""
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


def _open(path: Path) -> sqlite3.Connection:
    try:
        # Samples come from the scheduler's loop, a close may come from another thread.
        db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise HistoryError(_words(path, error)) from error
    try:
        _prepare(db, path)
    except sqlite3.Error as error:
        db.close()
        raise HistoryError(_words(path, error)) from error
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
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    for number in range(version, len(STEPS)):
        # One transaction each, so that a kill in between leaves a version that is whole.
        db.executescript(
            f"BEGIN IMMEDIATE;{STEPS[number]}PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {number + 1};COMMIT;"
        )


def _words(path: Path, error: sqlite3.Error) -> str:
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

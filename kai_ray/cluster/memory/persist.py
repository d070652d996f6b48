"""The store's state in an SQLite file, so that a restart continues where a kill left off.

Each change is committed before the write is acknowledged. The write-ahead log reaches the operating
system with every commit, so a killed process loses nothing that it acknowledged; a power cut may
lose the last changes, never the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kai_ray.cluster.port import Key, Object

from .state import GroupPlural

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x4B414952  # "KAIR"

_decode = msgspec.json.Decoder(dict).decode


class StateFileError(Exception):
    """The state file cannot be used; the message says why and what to do."""


class SqliteJournal:
    """Objects by resource, namespace and name, and the version counter."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def put(self, table: GroupPlural, key: Key, version: int, body: bytes) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (*table, *key, body)
            )
            self._db.execute("UPDATE counter SET version = ?", (version,))

    def drop(self, table: GroupPlural, key: Key, version: int) -> None:
        with self._db:
            self._db.execute(
                "DELETE FROM objects WHERE grp = ? AND plural = ? AND namespace = ? AND name = ?",
                (*table, *key),
            )
            self._db.execute("UPDATE counter SET version = ?", (version,))

    def close(self) -> None:
        self._db.close()


def open_journal(
    path: Path,
) -> tuple[SqliteJournal, int, Iterable[tuple[GroupPlural, Key, Object]]]:
    """Opens or creates the file: (journal, version, objects). Raises StateFileError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, check_same_thread=False, timeout=2.0)
        fresh = _check_owner(db, path)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if fresh:
            _create(db)
        db.execute("BEGIN IMMEDIATE")  # takes the lock, or fails if another process has it
        db.commit()
        (version,) = db.execute("SELECT version FROM counter").fetchone()
        rows = [
            ((group, plural), Key(namespace, name), _decode(body))
            for group, plural, namespace, name, body in db.execute(
                "SELECT grp, plural, namespace, name, body FROM objects"
            )
        ]
    except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
        raise StateFileError(
            f"{path}: cannot be used as state ({error}): is another instance running on it? "
            "Otherwise move the file away to start empty"
        ) from error
    return SqliteJournal(db), version, rows


def _check_owner(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is new. Raises StateFileError, without having written, if it is not ours."""
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner == 0 and schema == 0 and tables == 0:
        return True
    if owner != _APPLICATION_ID:
        raise StateFileError(f"{path} is not a state file of kai-ray: choose another directory")
    if schema != SCHEMA_VERSION:
        raise StateFileError(
            f"{path} has state format {schema}, this version of kai-ray reads {SCHEMA_VERSION}: "
            "use the kai-ray version that wrote it, or move the file away to start empty"
        )
    return False


def _create(db: sqlite3.Connection) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "CREATE TABLE objects (grp TEXT, plural TEXT, namespace TEXT, name TEXT, "
            "body BLOB NOT NULL, PRIMARY KEY (grp, plural, namespace, name)) WITHOUT ROWID"
        )
        db.execute("CREATE TABLE counter (version INTEGER NOT NULL)")
        db.execute("INSERT INTO counter VALUES (1)")
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

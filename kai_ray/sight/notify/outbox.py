"""Messages on their way, in a file: a restart goes on with them, and a kill costs a second's.

A message may be sent twice then, but is not lost. Only threads that send wait for the disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kai_ray.sight.notify.message import Message

log = logging.getLogger(__name__)

VERSION = 1


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """A message for a target. `made_s`: seconds since 1970."""

    target: str
    made_s: float
    message: Message


class _File(msgspec.Struct, frozen=True):
    version: int
    parcels: list[Parcel]


class Outbox:
    """One file, read once and replaced as a whole. Raises nothing: the log says what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._there = path.exists()
        self._problem = ""

    def load(self) -> list[Parcel]:
        """What was left by the process before; a file that makes no sense is put aside."""
        if not self._there:
            return []
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=_File)
            if found.version != VERSION:
                raise ValueError(f"it has version {found.version}, and this program {VERSION}")
            return found.parcels
        except (OSError, ValueError) as error:
            aside = self.path.with_suffix(".unread")
            log.warning("%s: messages cannot be read, kept as %s: %s", self.path, aside, error)
            with contextlib.suppress(OSError):
                self.path.replace(aside)
            self._there = False
            return []

    def save(self, parcels: Iterable[Parcel]) -> None:
        """Only the owner may read it: addresses are passwords."""
        rows = list(parcels)
        if not rows and not self._there:
            return
        try:
            if rows:
                self._write(msgspec.json.encode(_File(VERSION, rows)))
            else:
                self.path.unlink(missing_ok=True)
            self._there, problem = bool(rows), ""
        except OSError as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("%s: messages on their way are not kept: %s", self.path, problem)
        self._problem = problem

    def _write(self, content: bytes) -> None:
        new = self.path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

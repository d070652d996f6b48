"""Folders that one program sees in a place of their own, by a mount namespace."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


def private_folders(places: Mapping[str, Path]) -> Callable[[], None]:
    """What a new process calls so that it sees each folder at its place. Needs root, or a
    network of its own that was made without (where it is root of its namespace)."""
    libc = ctypes.CDLL(None, use_errno=True)
    pairs = [(str(folder).encode(), place.encode()) for place, folder in places.items()]
    for place in places:
        Path(place).mkdir(parents=True, exist_ok=True)

    def mount(source: bytes | None, target: bytes, flags: int) -> None:
        if libc.mount(source, target, None, ctypes.c_ulong(flags), None):
            raise OSError(ctypes.get_errno(), f"mount {target!r}")

    def enter() -> None:
        if libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        mount(None, b"/", MS_REC | MS_PRIVATE)
        for source, target in pairs:
            mount(source, target, MS_BIND)

    return enter

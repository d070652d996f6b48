"""Where the history file is: as the user says, else `$KAI_HISTORY`, else that of `kai up`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kai_ray.cli.failures import MISSING, Failure
from kai_ray.sdk import clusters

FILE = "history.sqlite"


def found(named: Path | None) -> Path:
    """Raises Failure where there is none."""
    if named is None and os.environ.get("KAI_HISTORY"):
        named = Path(os.environ["KAI_HISTORY"])
    if named is not None:
        return named / FILE if named.is_dir() else named
    note = clusters.running_cluster()
    if note is not None and note.get("history"):
        return Path(str(note["history"]))
    raise Failure(
        "which history?",
        why="no `kai up` runs on this machine whose history could be read",
        next="name the file with --history, or the folder that the scheduler has as --state",
        code=MISSING,
    )


@contextmanager
def kept(state: str | None) -> Iterator[Path]:
    """The history file of a cluster: in its folder, or a temporary one that goes with it."""
    if state is not None:
        yield Path(state) / FILE
        return
    with tempfile.TemporaryDirectory(prefix="kai-history-") as folder:
        yield Path(folder) / FILE

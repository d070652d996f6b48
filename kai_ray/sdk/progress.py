"""Bars on a terminal and in notebooks while jobs are waited for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kai_ray.sdk.job import Job
    from kai_ray.sdk.looks import Look


class Progress(Protocol):
    """Is told of every look."""

    def update(self, job: Job, found: Look) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Where nobody watches."""

    def update(self, job: Job, found: Look) -> None:
        pass

    def close(self) -> None:
        pass


class Bars:
    """A line a job: its name, how many of its pods run, where it stands and why."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as Lines

        self._lines = Lines(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[standing]}"),
            console=Console(stderr=True),
            transient=False,
        )
        self._tasks: dict[Job, int] = {}
        self._lines.start()

    def update(self, job: Job, found: Look) -> None:
        if job not in self._tasks:
            self._tasks[job] = self._lines.add_task(job.ref, total=1, standing="")
        row = found.row
        total = max(1, row.wanted if row else 1)
        done = total if found.status == "Succeeded" else (row.running if row else 0)
        self._lines.update(
            self._tasks[job],  # type: ignore[arg-type]
            total=total,
            completed=min(done, total),
            standing=standing(found),
        )

    def close(self) -> None:
        self._lines.stop()


def standing(found: Look) -> str:
    """The status, and for what it waits: "Waiting (OverLimit), 3rd in queue vision"."""
    text = str(found.status)
    row = found.row
    if row is None:
        return text
    if row.reason and found.status.queued:
        text += f" ({row.reason})"
    if row.position:
        text += f", place {row.position} in queue {row.queue}"
    return text


def watched(progress: bool | Progress | None) -> Progress:
    """Bars where `progress` is True; where it is None, if a person is watching."""
    if progress is not None and not isinstance(progress, bool):
        return progress
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook()
    return Bars() if progress else Silent()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"

"""Events of made-up jobs, and a journal that they go to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kai_ray.history.job_event import JobEvent, What
from kai_ray.history.journal import HistorySettings, Journal
from kai_ray.history.reader import HistoryReader

START = 1_767_225_600.0
HOUR, DAY = 3600.0, 86_400.0


def event(at_s: float, what: What, name: str = "train", **more: Any) -> JobEvent:
    """`at_s` counts from START; `held` GPUs are H100s of the pool "big"."""
    held = float(more.pop("held", 0.0))
    fields: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "research",
        "name": name,
        "kind": "PyTorchJob",
        "api_version": "kubeflow.org/v1",
        "group": f"pg-{name}",
        "queue": "team",
        "user": "ada",
        "pool": "",
        "gpus": 8.0,
        "held": held,
        "pods": int(held),
        "types": (("H100", "big", held),) if held else (),
        **more,
    }
    return JobEvent(at_s=START + at_s, what=what, **fields)


class Book:
    """A journal on a file, with what happens at times counted from START."""

    def __init__(self, path: Path, at_s: float = 0.0, **settings: Any) -> None:
        self.path = path
        self.journal = Journal(HistorySettings(path, **settings), START + at_s)
        self.reader = HistoryReader(path)

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *exc: object) -> None:
        self.journal.close()

    def take(self, *events: JobEvent) -> None:
        self.journal.take(events)

    def advance(self, at_s: float, longest_s: float = 30 * DAY) -> bool:
        self.journal.advance(START + at_s, longest_s, last=True)
        return self.journal.commit()


def life(name: str = "train", begin: float = 0.0) -> list[JobEvent]:
    """Waits for 100 s, runs for 1,000, is away for 50, runs for 500 and ends well."""
    return [
        event(begin, "created", name),
        event(begin, "grouped", name),
        event(begin, "waits", name, reason="InsufficientGpu", message="8 of 8 are missing"),
        event(begin + 100, "started", name, held=8, nodes=("n-1", "n-2")),
        event(begin + 110, "ready", name, held=8),
        event(
            begin + 1100,
            "evicted",
            name,
            reason="Reclaimed",
            message="for another queue",
            for_whom="RayJob research/other",
            nodes=("n-1", "n-2"),
        ),
        event(begin + 1150, "resumed", name, held=8, nodes=("n-3",)),
        event(begin + 1650, "ended", name, reason="Succeeded"),
    ]

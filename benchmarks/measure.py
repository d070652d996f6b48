"""Measure a piece of work in fresh processes and take medians.

A benchmark prepares its input, then is timed: CPU seconds of the process, wall seconds, and the
peak memory of the process. Start-up and preparation are outside the times, inside the memory.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Figures:
    """What one run took. `parts` splits the CPU seconds, `checks` says what came out."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_rss_mb: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Times what is inside and adds it to the whole."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.parts[name] = time.process_time() - cpu
        self.cpu_s += self.parts[name]
        self.wall_s += time.perf_counter() - wall


def once(work: Callable[[Figures], None]) -> str:
    """Runs the work here and answers its figures as one line of JSON."""
    figures = Figures()
    work(figures)
    figures.peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return json.dumps(asdict(figures))


def repeated(arguments: list[str], repeats: int) -> dict[str, Any]:
    """Medians over fresh processes of `python -m benchmarks ARGUMENTS --once`."""
    runs: list[dict[str, Any]] = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "benchmarks", *arguments, "--once"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"benchmark {' '.join(arguments)}: its process ended with {done.returncode}")
        runs.append(json.loads(done.stdout))

    def median(*path: str) -> float:
        values: list[Any] = runs[:]
        for key in path:
            values = [value[key] for value in values]
        return round(statistics.median(values), 4)

    return {
        "cpu_s": median("cpu_s"),
        "wall_s": median("wall_s"),
        "peak_rss_mb": round(median("peak_rss_mb"), 1),
        "repeats": repeats,
        "parts": {name: median("parts", name) for name in runs[0]["parts"]},
        "checks": runs[0]["checks"],
    }

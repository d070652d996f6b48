"""`import kai_ray` in a fresh Python: by itself, with `connect`, and with every public name.

The times are those of the import alone, measured inside; `python` is a start without any.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

OPTIONS: dict[str, Any] = {"starts": 10}
PROGRAMS = {
    "import_ms": "import kai_ray",
    "connect_ms": "import kai_ray; kai_ray.connect",
    "helpers_ms": "import kai_ray; kai_ray.RayJob; kai_ray.labels",
    "all_names_ms": "import kai_ray; [getattr(kai_ray, name) for name in kai_ray.__all__]",
}
GOAL_MS = 200.0
_TIMED = "import time; t = time.perf_counter(); {}; print((time.perf_counter() - t) * 1000)"


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """Medians over `starts` processes, after one that warms the disk's cache."""
    result: dict[str, Any] = {"benchmark": "import_time", "sizes": {"starts": options["starts"]}}
    for name, program in PROGRAMS.items():
        code = _TIMED.format(program)
        _run(code)
        times = [float(_run(code)) for _ in range(options["starts"])]
        result[name] = round(statistics.median(times), 2)
    began = time.perf_counter()
    for _ in range(options["starts"]):
        _run("print(0)")
    result["python_ms"] = round((time.perf_counter() - began) / options["starts"] * 1000, 2)
    result["goal_ms"] = GOAL_MS
    return result


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def table(result: dict[str, Any]) -> str:
    lines = [f"import_time: median of {result['sizes']['starts']} starts, goal {GOAL_MS:g} ms"]
    lines += [f"  {name:<14} {result[name]}" for name in (*PROGRAMS, "python_ms")]
    return "\n".join(lines)

"""Start of the command line: `kai get queues` from a shell, on a served store of some queues.

The times are those of one command, interpreter included; the server's are not in them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures
from kai_ray.cluster import resources as R
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.rest import RestServer

OPTIONS: dict[str, Any] = {"queues": 100, "starts": 10}
_PROGRAM = "from kai_ray.cli import main; main()"


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"queues": options["queues"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    """The mean over `starts` commands, after one that warms the disk's cache."""
    store = MemoryStore()
    install_defaults(store)
    for number in range(options["queues"]):
        spec = {"parentQueue": "default-parent-queue", "resources": {"gpu": {"quota": 1}}}
        store.create(R.QUEUE, {"metadata": {"name": f"queue-{number}"}, "spec": spec})
    with tempfile.TemporaryDirectory() as folder, RestServer(store) as server:
        file = server.write_kubeconfig(Path(folder) / "config")
        lines = _command(file)
        cpu, wall = _children_cpu_s(), time.perf_counter()
        for _ in range(options["starts"]):
            _command(file)
        figures.cpu_s = (_children_cpu_s() - cpu) / options["starts"]
        figures.wall_s = (time.perf_counter() - wall) / options["starts"]
    store.close()
    figures.checks["rows"] = lines - 1


def _command(kubeconfig: Path) -> int:
    """Runs `kai get queues`; the number of lines that it printed."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "get", "queues"],
        env={**os.environ, "KAI_KUBECONFIG": str(kubeconfig)},
        check=True,
        capture_output=True,
        text=True,
    )
    return len(done.stdout.splitlines())


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

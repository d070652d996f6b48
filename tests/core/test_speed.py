"""The cost of a cycle grows with what is decided, and the benchmark says what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import fill
from kai_ray.encode import Encoder
from kai_ray.scheduler import decide

_ROOT = Path(__file__).resolve().parents[2]


def _cpu_s(nodes: int, jobs: int) -> float:
    """The best of three: other processes can only add."""
    encoder = Encoder()
    for resource, listed in fill.objects(nodes, jobs, 1):
        encoder.apply_all(resource, listed)
    snapshot = encoder.snapshot(1_800_000_000.0).snapshot
    taken: list[float] = []
    for _ in range(3):
        before = time.process_time()
        plan = decide(snapshot)
        taken.append(time.process_time() - before)
        assert len(plan.bind_task) == min(jobs, nodes * 8)
    return min(taken)


def test_filling_a_cluster_costs_in_proportion_to_the_jobs() -> None:
    assert _cpu_s(800, 6400) < 8 * _cpu_s(200, 1600), "4 times the jobs: 4 times, not 16"


def test_gangs_that_wait_cost_no_more_than_gangs_that_start() -> None:
    assert _cpu_s(50, 6400) < 3 * _cpu_s(800, 6400)


def test_the_benchmark_prints_one_json_object() -> None:
    command = [sys.executable, "-m", "benchmarks", "fill", "--nodes", "10", "--jobs", "90"]
    done = subprocess.run(
        [*command, "--repeats", "1", "--json"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    assert result["benchmark"] == "fill"
    assert result["sizes"] == {"nodes": 10, "jobs": 90, "gang": 1}
    assert result["repeats"] == 1
    assert result["checks"] == {"bound": 80, "nominated": 0, "evicted": 0, "waiting": 10}
    assert 0 < result["cpu_s"] < 60 and result["wall_s"] > 0 and result["peak_rss_mb"] > 10

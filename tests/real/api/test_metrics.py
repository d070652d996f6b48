"""Two processes of ours on a real API server, and a real Prometheus that scrapes both."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from kai_ray.cluster import resources as r
from tests.parts import debian
from tests.real.api.work import bound, job, until
from tests.real.control_plane import ControlPlane
from tests.real.metrics.prometheus import Prometheus
from tests.real.programs import Program


def address(process: Program) -> str:
    """Where it shows its metrics, by its own word."""
    found: list[str] = []

    def said() -> bool:
        found[:] = re.findall(r"metrics http://(\S+)/metrics", process.log.read_text())
        return bool(found)

    until(said, what="it says where its metrics are")
    return found[0]


def test_one_leads_and_counts_until_it_dies_and_the_other_takes_over(
    ours: ControlPlane,
    real_namespace: str,
    gpu_nodes: Callable[..., list[str]],
    kai_run: Callable[..., Program],
    tmp_path: Path,
) -> None:
    debian.need(debian.PROMETHEUS)
    gpu_nodes(2, prefix="seen")
    port, space = ours.port, real_namespace
    lease = ["--leader-elect", "--lease-namespace", space, "--lease-times", "3,2,0.5"]
    first = kai_run(*lease, name="seen-first")
    until(lambda: "took the lease" in first.tail(200), what="the first leads")
    second = kai_run(*lease, name="seen-second")
    with Prometheus(tmp_path / "prometheus", address(first), address(second)) as prometheus:
        prometheus.until("sum(up)", lambda v: v == 2)
        prometheus.until("sum(kai_leader)", lambda v: v == 1)
        leads = f'{{instance="{address(first)}"}}'
        assert prometheus.value(f"kai_leader{leads}") == 1

        port.create(r.JOB, job("seen", space, 3))
        until(lambda: bound(port, space, "seen") == 3, what="it is bound")
        prometheus.until(f"kai_bind_seconds_count{leads}", lambda v: v == 3)
        assert prometheus.value(f"kai_bind_seconds_sum{leads} > 0") is not None
        assert prometheus.value(f'kai_decisions_total{{kind="bind",instance="{address(first)}"}}')
        queue = 'kai_queue_gpus{queue="default-queue",state="allocated"}'
        prometheus.until(queue, lambda v: v == 3)  # a standby shows no queues of its own
        prometheus.until("max(kai_watch_lag_seconds)", lambda v: v < 30)

        first.kill()
        leads = f'{{instance="{address(second)}"}}'
        prometheus.until(f"kai_leader{leads}", lambda v: v == 1)
        prometheus.until(f'{queue[:-1]},instance="{address(second)}"}}', lambda v: v == 3)
        assert prometheus.value(f"kai_bind_seconds_count{leads}") == 0

"""Answer Prometheus on a full cluster: what a cycle costs to count, and what a scrape costs.

The cluster is that of `fill`, after its cycle. `count` is what the loop pays for the metrics of
that cycle; `scrape` is the first page after a cycle, `again` one that finds the figures computed.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from benchmarks.cluster import NOW
from benchmarks.fill import objects
from benchmarks.measure import Figures

OPTIONS = {"nodes": 1000, "jobs": 10000}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "jobs": options["jobs"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    from kai_ray.cluster.clock import VirtualClock
    from kai_ray.cluster.memory import MemoryStore
    from kai_ray.cluster.runtime import Runtime
    from kai_ray.controllers.cycle import carried_out
    from kai_ray.encode import Encoder
    from kai_ray.metrics.collector import SchedulerCollector, Sources
    from kai_ray.metrics.page import MetricsPage
    from kai_ray.metrics.tally import Tally
    from kai_ray.scheduler import decide
    from kai_ray.sight.figures import cycle_figures
    from kai_ray.sight.notify import Delivery, NotifyConfig
    from kai_ray.sight.sight import Sight

    encoder = Encoder()
    for resource, found in objects(options["nodes"], options["jobs"], 1):
        encoder.apply_all(resource, found)
    encoded = encoder.snapshot(NOW.timestamp())
    cycle = carried_out(0, encoded, decide(encoded.snapshot))
    runtime = Runtime(MemoryStore(VirtualClock()), VirtualClock())
    sight, tally, delivery = Sight(), Tally(), Delivery(NotifyConfig())
    tally.watch(sight)
    runtime.add(sight)
    runtime.add(tally)
    page = MetricsPage(
        SchedulerCollector(lambda: Sources(sight, tally, runtime, delivery), "0"), least_s=0.0
    )
    page("")  # what is imported and allocated once, here and in the next line
    np.unique(np.zeros(1))
    gc.collect()
    gc.freeze()  # the input is not ours to scan
    sight._cycles[""] = cycle
    sight._count += 1
    with figures.part("count"):
        tally._saw_cycle(cycle_figures("", cycle, {"decide": 0.1}))
    with figures.part("scrape"):
        page("")
    with figures.part("again"):
        _, body = page("")
    figures.checks["series"] = sum(not line.startswith(b"#") for line in body.splitlines())
    figures.checks["kilobytes"] = round(len(body) / 1000)

"""The collector: one look at the state per scrape, whoever asks and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kai_ray.cluster.runtime import Runtime
from kai_ray.metrics import gpu_use, kai_names, notifications, own_names
from kai_ray.metrics.families import counter, gauge
from kai_ray.metrics.tally import Tally
from kai_ray.sight.notify import Delivery
from kai_ray.sight.sight import Sight


@dataclass(frozen=True, slots=True)
class Sources:
    """What a scrape reads."""

    sight: Sight
    tally: Tally
    runtime: Runtime
    delivery: Delivery


class SchedulerCollector(Collector):
    """`sources` is asked anew for each scrape: a leader that lost its lease begins a new life."""

    def __init__(self, sources: Callable[[], Sources], version: str) -> None:
        self._sources = sources
        self._version = version

    def collect(self) -> Iterator[Metric]:
        found = self._sources()
        yield from self._process(found)
        if not found.tally.ready:
            return
        sight, tally = found.sight, found.tally
        queues = sight.queues
        yield from kai_names.families(queues, tally.display_names(), sight.cycle, tally)
        yield from own_names.queues(queues)
        yield from own_names.jobs(queues, tally)
        yield from own_names.nodes(sight.nodes)
        yield from own_names.scheduler(sight.totals, tally, _objects(sight))
        yield from gpu_use.families(sight.gpu)
        yield from tally.job_use.families(sight)
        yield from notifications.families(found.delivery.figures())

    def _process(self, found: Sources) -> Iterator[Metric]:
        runtime = found.runtime
        yield gauge("kai_build_info", "1", ("version",), [((self._version,), 1.0)])
        yield gauge(
            "kai_leader",
            "1 for the process that decides, 0 for one that stands by or runs other parts",
            (),
            [((), float(runtime.leads and found.tally.decides))],
        )
        yield gauge(
            "kai_watch_lag_seconds",
            "Since the API server last said anything about a kind; +Inf without a watch",
            ("kind",),
            (((kind,), age_s) for kind, age_s in sorted(runtime.news_age_s().items())),
        )
        yield counter(
            "kai_loop_errors_total",
            "Errors that the loop went on after",
            (),
            [((), float(runtime.errors))],
        )


def _objects(sight: Sight) -> dict[str, int]:
    """Rows of the last picture of each node pool, by kind."""
    found: dict[str, int] = {"nodes": 0, "queues": 0, "gangs": 0, "pods": 0, "classes": 0}
    for cycle in filter(None, (sight.last(pool) for pool in sight.pools)):
        snapshot = cycle.encoded.snapshot
        found["nodes"] += snapshot.nodes.count
        found["queues"] += snapshot.queues.count
        found["gangs"] += snapshot.gangs.count
        found["pods"] += snapshot.tasks.count
        found["classes"] += snapshot.classes.count
    return found

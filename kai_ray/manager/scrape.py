"""The metrics of a running scheduler, for the server that shows them."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.cluster.runtime import Runtime
from kai_ray.manager.composition import Composition
from kai_ray.manager.health import Page


def metrics_page(parts: Callable[[], tuple[Composition, Runtime]]) -> Page:
    """`parts` is asked at every scrape: a process that lost its lease has new ones."""
    from importlib.metadata import version

    from kai_ray.metrics.collector import SchedulerCollector, Sources
    from kai_ray.metrics.page import MetricsPage

    def sources() -> Sources:
        composition, runtime = parts()
        return Sources(composition.sight, composition.tally, runtime, composition.delivery)

    return MetricsPage(SchedulerCollector(sources, version("kai-ray")))

"""The metrics of a running scheduler, for the server that shows them."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.cluster.runtime import Runtime
from kai_ray.manager.composition import Composition
from kai_ray.manager.health import Page


def metrics_page(
    parts: Callable[[], tuple[Composition, Runtime]], least_s: float | None = None
) -> Page:
    """`parts` is asked for every page: a process that lost its lease has new ones.

    `least_s`: a page is shown again for so long; None = the default.
    """
    from importlib.metadata import version

    from kai_ray.metrics.collector import SchedulerCollector, Sources
    from kai_ray.metrics.page import LEAST_S, MetricsPage

    def sources() -> Sources:
        composition, runtime = parts()
        return Sources(composition.sight, composition.tally, runtime, composition.delivery)

    collector = SchedulerCollector(sources, version("kai-ray"))
    return MetricsPage(collector, least_s=LEAST_S if least_s is None else least_s)

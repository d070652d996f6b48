"""KAI-Scheduler's metrics under its own names, labels and units: its dashboards go on working.

Left out are those that say how KAI searches (scenarios, plugins), which nothing here corresponds
to; docs/metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import Metric

from kai_ray.metrics.families import Rows, bare_counter, counter, gauge, histogram
from kai_ray.metrics.tally import Tally
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY, Floats
from kai_ray.sight.figures import CycleFigures, QueueFigures

UNLIMITED = -1.0
#: Our name of an action -> KAI's, where they differ.
KAI_ACTIONS = {"stale_gang": "stalegangeviction"}
_QUEUE = ("queue_name", "queue_metadata_name", "queue_display_name")
_BYTES_PER_GB, _MILLI = 1e9, 1e3
#: (metric, what it is, column of the figures, resource row, divisor): by the queue's own name.
_BY_OBJECT = (
    ("kai_queue_deserved_gpus", "Quota in GPUs; -1 = unlimited", "quota", GPU, 1.0),
    ("kai_queue_quota_cpu_cores", "Quota in CPU cores; -1 = unlimited", "quota", CPU, _MILLI),
    ("kai_queue_quota_memory_bytes", "Quota in bytes; -1 = unlimited", "quota", MEMORY, 1.0),
    ("kai_queue_allocated_gpus", "GPUs held, with queues below", "allocated", GPU, 1.0),
    ("kai_queue_allocated_cpu_cores", "CPU cores held", "allocated", CPU, _MILLI),
    ("kai_queue_allocated_memory_bytes", "Bytes of memory held", "allocated", MEMORY, 1.0),
)
#: The scheduler's own, which KAI names by the display name where there is one.
_BY_DISPLAY = (
    ("kai_queue_fair_share_cpu_cores", "Fair share in CPU cores", "fair_share", CPU, _MILLI),
    ("kai_queue_fair_share_memory_gb", "Fair share in GB", "fair_share", MEMORY, _BYTES_PER_GB),
    ("kai_queue_fair_share_gpu", "Fair share in GPUs", "fair_share", GPU, 1.0),
    ("kai_queue_cpu_usage", "Usage over time, part of the cluster's CPU", "usage", CPU, 1.0),
    ("kai_queue_memory_usage", "Usage over time, part of its memory", "usage", MEMORY, 1.0),
    ("kai_queue_gpu_usage", "Usage over time, part of its GPUs", "usage", GPU, 1.0),
)


def families(
    figures: QueueFigures, display: Mapping[str, str], last: CycleFigures | None, tally: Tally
) -> Iterator[Metric]:
    """`display`: queue name -> its display name, which may be empty."""
    yield from _queues(figures, display)
    if last is not None:
        yield from _latencies(last)
        yield from _actions(last)
    yield from _counters(tally)


def _queues(figures: QueueFigures, display: Mapping[str, str]) -> Iterator[Metric]:
    shown = [(name, display.get(name, "")) for name in figures.names]
    by_object = [(n, n, d) for n, d in shown]
    by_display = [(d or n, n, d) for n, d in shown]
    yield gauge("kai_queue_info", "1 for every queue", _QUEUE, ((q, 1.0) for q in by_object))
    for columns, labels in ((_BY_OBJECT, by_object), (_BY_DISPLAY, by_display)):
        for name, text, column, resource, divisor in columns:
            amounts = _in_units(getattr(figures, column)[resource], divisor)
            yield gauge(name, text, _QUEUE, zip(labels, amounts, strict=True))


def _in_units(amounts: Floats, divisor: float) -> list[float]:
    """Rounded to four decimals, as KAI does; -1 stays what it means."""
    return np.where(amounts == UNLIMITED, UNLIMITED, (amounts / divisor).round(4)).tolist()


def _latencies(last: CycleFigures) -> Iterator[Metric]:
    seconds = last.seconds
    for name, text, value_s in (
        ("e2e_scheduling", "The last cycle as a whole", sum(seconds.values())),
        ("open_session", "Its picture of the cluster", seconds.get("snapshot", 0.0)),
        ("close_session", "What it did after deciding", _after_deciding(seconds)),
    ):
        rows = [((), value_s * 1e3)]
        yield gauge(f"kai_{name}_latency_milliseconds", f"{text}, in milliseconds", (), rows)


def _actions(last: CycleFigures) -> Iterator[Metric]:
    yield gauge(
        "kai_action_scheduling_latency_milliseconds",
        "What each action took in the last cycle, in milliseconds",
        ("action",),
        (
            ((KAI_ACTIONS.get(name, name),), seconds * 1e3)
            for name, seconds in last.actions.items()
            if name != "prepare"
        ),
    )


def _after_deciding(seconds: Mapping[str, float]) -> float:
    return sum(value for step, value in seconds.items() if step not in ("snapshot", "decide"))


def _counters(tally: Tally) -> Iterator[Metric]:
    by_action: Rows = [((action,), float(n)) for action, n in sorted(tally.scheduled_by.items())]
    yield bare_counter(
        "kai_podgroups_scheduled_by_action",
        "PodGroups that an action found room for",
        ("action",),
        by_action,
    )
    yield bare_counter(
        "kai_total_preemption_attempts",
        "PodGroups for which others of their queue were evicted",
        (),
        [((), float(tally.scheduled_by.get("preempt", 0)))],
    )
    yield counter(
        "kai_pod_group_evicted_pods_total",
        "Pods evicted of a PodGroup that is there",
        ("podgroup", "namespace", "uid", "nodepool", "action"),
        tally.evicted_of_groups(),
    )
    for name, text, kept in (
        ("task_scheduling", "From a pod's creation to its decision", tally.pod_wait_ms),
        ("task_bind", "From the bind's request to its answer", tally.bind_ms),
        ("usage_query", "How long Prometheus took to tell past usage", tally.usage_query_ms),
    ):
        title = f"kai_{name}_latency_milliseconds"
        yield histogram(title, f"{text}, in milliseconds", (), {(): kept})

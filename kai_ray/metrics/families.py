"""Metric families from columns, in the words of prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import Metric

from kai_ray.metrics.histogram import Histogram

Rows = Iterable[tuple[Sequence[str], float]]
"""(values of the labels, value of the sample)"""


def gauge(name: str, help: str, labels: Sequence[str], rows: Rows) -> Metric:
    return _plain(Metric(name, help, "gauge"), name, labels, rows)


def counter(name: str, help: str, labels: Sequence[str], rows: Rows) -> Metric:
    """`name` ends in _total."""
    return _plain(Metric(name.removesuffix("_total"), help, "counter"), name, labels, rows)


def bare_counter(name: str, help: str, labels: Sequence[str], rows: Rows) -> Metric:
    """A counter under a name of KAI's that does not end in _total; its type cannot be said."""
    return _plain(Metric(name, help, "unknown"), name, labels, rows)


def histogram(
    name: str, help: str, labels: Sequence[str], rows: Mapping[tuple[str, ...], Histogram]
) -> Metric:
    metric = Metric(name, help, "histogram")
    for values, kept in rows.items():
        told = dict(zip(labels, values, strict=True))
        reading = kept.read()
        for bound, count in reading.buckets:
            metric.add_sample(f"{name}_bucket", {**told, "le": bound}, count)
        metric.add_sample(f"{name}_count", told, reading.buckets[-1][1])
        metric.add_sample(f"{name}_sum", told, reading.total)
    return metric


def _plain(metric: Metric, name: str, labels: Sequence[str], rows: Rows) -> Metric:
    for values, value in rows:
        metric.add_sample(name, dict(zip(labels, values, strict=True)), value)
    return metric

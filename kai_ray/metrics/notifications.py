"""What became of messages to webhooks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kai_ray.metrics.families import counter, gauge
from kai_ray.sight.notify import DeliveryFigures


def families(figures: DeliveryFigures) -> Iterator[Metric]:
    outcomes = ("sent", "refused", "expired", "dropped")
    yield counter(
        "kai_notifications_total",
        "Messages about jobs by what became of them; those on their way are not in it",
        ("outcome",),
        (((outcome,), float(getattr(figures, outcome))) for outcome in outcomes),
    )
    yield counter(
        "kai_notification_retries_total",
        "Requests to webhooks that failed and are tried again",
        (),
        [((), float(figures.retried))],
    )
    yield gauge(
        "kai_notifications_waiting", "Messages on their way", (), [((), float(figures.waiting))]
    )
    yield gauge(
        "kai_notification_targets_failing",
        "Channels and addresses whose last request failed",
        (),
        [((), float(len(figures.problems)))],
    )

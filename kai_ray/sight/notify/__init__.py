"""Telling people what becomes of their jobs: messages to webhooks, beside the scheduler's loop."""

from __future__ import annotations

from kai_ray.sight.notify.config import Channel, NotifyConfig, NotifyConfigError
from kai_ray.sight.notify.delivery import Delivery, DeliveryFigures
from kai_ray.sight.notify.notifier import Notifier
from kai_ray.sight.notify.outbox import Outbox

__all__ = [
    "Channel",
    "Delivery",
    "DeliveryFigures",
    "Notifier",
    "NotifyConfig",
    "NotifyConfigError",
    "Outbox",
]

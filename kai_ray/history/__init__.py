"""What was: a file of our own that outlives restarts. Today it holds usage; tables can be added."""

from __future__ import annotations

from kai_ray.history.file import HistoryError, HistoryFile
from kai_ray.history.prometheus import PrometheusUsage
from kai_ray.history.usage import UsageRecord
from kai_ray.history.window import UsageSettings, WindowType

__all__ = [
    "HistoryError",
    "HistoryFile",
    "PrometheusUsage",
    "UsageRecord",
    "UsageSettings",
    "WindowType",
]

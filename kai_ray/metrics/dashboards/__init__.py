"""Grafana dashboards, written down as code: one file each, of the panels in panels.py."""

from __future__ import annotations

from typing import Any

from kai_ray.metrics.dashboards import jobs, nodes, queues, scheduler

_ALL = {"queues": queues, "jobs": jobs, "nodes": nodes, "scheduler": scheduler}


def dashboards() -> dict[str, dict[str, Any]]:
    """Name -> Grafana's JSON model, complete: it can be imported as it is."""
    return {f"kai-ray-{name}": module.dashboard() for name, module in _ALL.items()}

"""How the scheduler itself is: cycles, decisions, binds, the age of its news, what it costs."""

from __future__ import annotations

from typing import Any

from kai_ray.metrics.dashboards.panels import Panel, Query
from kai_ray.metrics.dashboards.panels import dashboard as made


def dashboard() -> dict[str, Any]:
    return made(
        "kai-ray-scheduler",
        "kai-ray / Scheduler",
        "Cycles and their steps, decisions, binds, freshness of news, cost of the process.",
        [_now(), _cycles(), _decisions(), _news(), _cost()],
        [],
    )


def _quantile(part: float, metric: str, where: str = "") -> str:
    rates = f"rate({metric}_bucket{where}[$__rate_interval])"
    return f"histogram_quantile({part}, sum by (le) ({rates}))"


def _now() -> list[Panel]:
    stat: dict[str, Any] = {"kind": "stat", "width": 6, "height": 5}
    return [
        Panel(
            "Leaders",
            [Query("sum(kai_leader)")],
            "One decides; others stand by.",
            limits=((2, "red"),),
            **stat,
        ),
        Panel("Pods in the picture", [Query('sum(kai_snapshot_objects{kind="pods"})')], **stat),
        Panel(
            "Oldest news",
            [Query("max(kai_watch_lag_seconds)")],
            "Since the API server last said anything about a kind; past 30 s nothing is decided.",
            unit="s",
            limits=((15, "orange"), (30, "red")),
            **stat,
        ),
        Panel(
            "Errors gone on after",
            [Query("sum(increase(kai_loop_errors_total[$__range]))")],
            limits=((1, "orange"),),
            **stat,
        ),
    ]


def _cycles() -> list[Panel]:
    seconds, whole = "kai_scheduler_cycle_seconds", '{step="cycle"}'
    interval = "[$__rate_interval]"
    mean = f"rate({seconds}_sum{interval}) / rate({seconds}_count{interval})"
    return [
        Panel(
            "A cycle takes",
            [
                Query(_quantile(0.5, seconds, whole), "half within"),
                Query(_quantile(0.99, seconds, whole), "99 % within"),
            ],
            unit="s",
        ),
        Panel(
            "By step, on average",
            [Query(f"sum by (step) ({mean})", "{{step}}")],
            unit="s",
            width=6,
        ),
        Panel(
            "By action, on average",
            [Query(f"sum by (action) ({mean.replace('cycle', 'action')})", "{{action}}")],
            unit="s",
            width=6,
        ),
    ]


def _decisions() -> list[Panel]:
    return [
        Panel(
            "Pods decided on, a second",
            [
                Query(
                    "sum by (kind, reason) (rate(kai_decisions_total[$__rate_interval]))",
                    "{{kind}} {{reason}}",
                )
            ],
            stacked=True,
        ),
        Panel(
            "A bind takes",
            [
                Query(_quantile(0.5, "kai_bind_seconds"), "half within"),
                Query(_quantile(0.99, "kai_bind_seconds"), "99 % within"),
            ],
            unit="s",
        ),
    ]


def _news() -> list[Panel]:
    return [
        Panel(
            "Age of news, by kind",
            [Query("kai_watch_lag_seconds", "{{kind}}")],
            unit="s",
        ),
        Panel("Rows of the picture", [Query("kai_snapshot_objects", "{{kind}}")]),
    ]


def _cost() -> list[Panel]:
    return [
        Panel(
            "CPU",
            [Query("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}")],
            "Cores.",
        ),
        Panel("Memory", [Query("process_resident_memory_bytes", "{{instance}}")], unit="bytes"),
    ]

"""What becomes of jobs: how long they wait and for what, who had to leave, how they end."""

from __future__ import annotations

from typing import Any

from kai_ray.metrics.dashboards.panels import Choice, Panel, Query
from kai_ray.metrics.dashboards.panels import dashboard as made
from kai_ray.metrics.dashboards.queues import QUEUE

_OF_QUEUE = 'queue=~"$queue",kind=~"$kind"'


def dashboard() -> dict[str, Any]:
    return made(
        "kai-ray-jobs",
        "kai-ray / Jobs",
        "Waits and their reasons, starts, evictions and ends.",
        [_now(), _waits(), _flow(), _ends(), [_idle()]],
        [QUEUE, Choice("kind", "Kind", "label_values(kai_job_events_total, kind)")],
    )


def _happened(what: str, by: str) -> str:
    events = f'kai_job_events_total{{{_OF_QUEUE},what="{what}"}}'
    return f"sum by ({by}) (increase({events}[$__rate_interval]))"


def _quantile(part: float) -> str:
    buckets = 'rate(kai_job_wait_seconds_bucket{queue=~"$queue"}[$__range])'
    return f"histogram_quantile({part}, sum by (le) ({buckets}))"


def _now() -> list[Panel]:
    return [
        Panel(
            "Waiting now",
            [Query('sum(kai_pending_jobs{queue=~"$queue"}) or vector(0)')],
            kind="stat",
            width=6,
            height=5,
        ),
        Panel(
            "Oldest waiting",
            [Query('max(kai_oldest_waiting_job_seconds{queue=~"$queue"}) or vector(0)')],
            kind="stat",
            unit="s",
            width=6,
            height=5,
            limits=((3600, "orange"), (24 * 3600, "red")),
        ),
        Panel(
            "Half started within",
            [Query(_quantile(0.5))],
            "Of the jobs that started in the time shown.",
            kind="stat",
            unit="s",
            width=6,
            height=5,
        ),
        Panel(
            "95 % started within",
            [Query(_quantile(0.95))],
            kind="stat",
            unit="s",
            width=6,
            height=5,
        ),
    ]


def _waits() -> list[Panel]:
    return [
        Panel(
            "Gangs that wait, by reason",
            [Query('sum by (reason) (kai_pending_jobs{queue=~"$queue"})', "{{reason}}")],
            stacked=True,
        ),
        Panel(
            "For how long the oldest of each queue has waited",
            [Query('kai_oldest_waiting_job_seconds{queue=~"$queue"}', "{{queue}}")],
            unit="s",
        ),
    ]


def _flow() -> list[Panel]:
    return [
        Panel(
            "Created and started",
            [
                Query(_happened("created", "what"), "created"),
                Query(_happened("started", "what"), "started"),
                Query(_happened("resumed", "what"), "started again"),
            ],
        ),
        Panel(
            "Evicted, by rule",
            [
                Query(_happened("evicted", "reason"), "{{reason}}"),
                Query(_happened("interrupted", "what"), "without a decision"),
            ],
            "Pods that failed or were deleted interrupt a job without a decision of ours.",
            stacked=True,
        ),
    ]


def _ends() -> list[Panel]:
    return [
        Panel("Ended", [Query(_happened("ended", "reason"), "{{reason}}")], stacked=True),
        Panel(
            "Idle warnings, by queue",
            [Query(_happened("warned", "queue"), "{{queue}}")],
            "Jobs that hold GPUs and do not use them.",
            stacked=True,
        ),
    ]


def _idle() -> Panel:
    return Panel(
        "GPUs held and not used, by job",
        [
            Query(
                "sort_desc(sum by (namespace, name, kind, queue)"
                f" (kai_job_idle_gpus{{{_OF_QUEUE}}}))",
                "Idle GPUs",
            )
        ],
        "The jobs that leave most of theirs idle.",
        kind="table",
        width=24,
        renamed={"namespace": "Namespace", "name": "Job", "kind": "Kind", "queue": "Queue"},
    )

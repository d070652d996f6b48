"""Who holds what, against quota and fair share, and who waits."""

from __future__ import annotations

from typing import Any

from kai_ray.metrics.dashboards.panels import Choice, Panel, Query
from kai_ray.metrics.dashboards.panels import dashboard as made

QUEUE = Choice("queue", "Queue", "label_values(kai_queue_parent_info, queue)")
_TOP = 'kai_queue_parent_info{parent=""}'


def dashboard() -> dict[str, Any]:
    return made(
        "kai-ray-queues",
        "kai-ray / Queues",
        "GPUs of queues: held, asked for, against quota and fair share.",
        [_overview(), _over_time(), _waiting(), _use(), [_table()], _others()],
        [QUEUE],
    )


def _gpus(state: str) -> str:
    return f'kai_queue_gpus{{queue=~"$queue",state="{state}"}}'


def _top_sum(state: str) -> str:
    """Queues at the top hold what those below them hold."""
    return f'sum(kai_queue_gpus{{state="{state}"}} * on (queue) group_left () {_TOP})'


def _overview() -> list[Panel]:
    cluster = 'sum(kai_node_gpus{state="capacity"})'
    return [
        Panel("GPUs of the cluster", [Query(cluster)], kind="stat", width=4, height=5),
        Panel(
            "Held by queues",
            [Query(_top_sum("allocated"))],
            kind="stat",
            width=4,
            height=5,
        ),
        Panel(
            "Held, of the cluster",
            [Query(f"{_top_sum('allocated')} / {cluster}")],
            kind="stat",
            unit="percentunit",
            width=4,
            height=5,
        ),
        Panel(
            "Asked for and not held",
            [Query(f"clamp_min({_top_sum('requested')} - {_top_sum('allocated')}, 0)")],
            "GPUs that pending pods want, beyond what is held.",
            kind="stat",
            width=4,
            height=5,
        ),
        Panel(
            "Borrowed beyond quota",
            [Query("sum(clamp_min(" + _borrowed("kai_queue_parent_info{leaf='true'}") + ", 0))")],
            "GPUs that leaf queues hold above their own quota.",
            kind="stat",
            width=4,
            height=5,
        ),
        Panel(
            "Waiting gangs",
            [Query(f"sum(kai_queue_waiting_jobs * on (queue) group_left () {_TOP})")],
            kind="stat",
            width=4,
            height=5,
        ),
    ]


def _borrowed(of: str) -> str:
    held, quota = 'kai_queue_gpus{state="allocated"}', 'kai_queue_gpus{state="quota"}'
    return f"({held} - ignoring (state) {quota}) * on (queue) group_left () {of}"


def _over_time() -> list[Panel]:
    return [
        Panel(
            "GPUs held",
            [Query(_gpus("allocated"), "{{queue}}")],
            "With queues below.",
        ),
        Panel(
            "Held against fair share",
            [
                Query(_gpus("allocated"), "{{queue}} held"),
                Query(_gpus("fair"), "{{queue}} fair share"),
            ],
            "Above the dashed line a queue can be reclaimed from.",
            dashed="/fair share$/",
        ),
    ]


def _waiting() -> list[Panel]:
    return [
        Panel(
            "GPUs asked for and not held",
            [
                Query(
                    f"clamp_min({_gpus('requested')} - ignoring (state) {_gpus('allocated')}, 0)",
                    "{{queue}}",
                )
            ],
            stacked=True,
        ),
        Panel(
            "Gangs that wait, by reason",
            [Query('sum by (reason) (kai_pending_jobs{queue=~"$queue"})', "{{reason}}")],
            stacked=True,
        ),
    ]


def _use() -> list[Panel]:
    known, used = 'kai_queue_known_gpus{queue=~"$queue"}', 'kai_queue_used_gpus{queue=~"$queue"}'
    return [
        Panel(
            "How well held GPUs are used",
            [Query(f"{used} / ({known} > 0)", "{{queue}}")],
            "Mean use of those of which an agent tells it.",
            unit="percentunit",
        ),
        Panel(
            "GPUs held and not used",
            [Query(f"{known} - {used}", "{{queue}}")],
            stacked=True,
        ),
    ]


def _table() -> Panel:
    states = ("quota", "fair", "allocated", "requested", "limit")
    titles = ("Quota", "Fair share", "Held", "Asked for", "Limit")
    queries = [
        Query(f"sum by (queue) ({_gpus(state)})", title)
        for state, title in zip(states, titles, strict=True)
    ]
    queries.append(Query('sum by (queue) (kai_queue_waiting_jobs{queue=~"$queue"})', "Waiting"))
    return Panel(
        "Queues now, in GPUs",
        queries,
        "No value where nothing is limited.",
        kind="table",
        width=24,
        height=10,
        renamed={"queue": "Queue"},
    )


def _others() -> list[Panel]:
    return [
        Panel(
            "CPU cores held",
            [Query('kai_queue_cpu_cores{queue=~"$queue",state="allocated"}', "{{queue}}")],
            width=8,
        ),
        Panel(
            "Memory held",
            [Query('kai_queue_memory_bytes{queue=~"$queue",state="allocated"}', "{{queue}}")],
            unit="bytes",
            width=8,
        ),
        Panel(
            "Usage over time, part of the cluster's GPUs",
            [
                Query(
                    'kai_queue_gpu_usage{queue_metadata_name=~"$queue"}',
                    "{{queue_metadata_name}}",
                )
            ],
            "What fairness over time goes by; 0 where it is not on.",
            unit="percentunit",
            width=8,
        ),
    ]

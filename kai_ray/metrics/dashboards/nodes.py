"""Where GPUs are free and in which pieces, what they do, and which are broken."""

from __future__ import annotations

from typing import Any

from kai_ray.metrics.dashboards.panels import Choice, Panel, Query
from kai_ray.metrics.dashboards.panels import dashboard as made

_POOL = 'node_pool=~"$node_pool"'


def dashboard() -> dict[str, Any]:
    return made(
        "kai-ray-nodes",
        "kai-ray / Nodes and fragmentation",
        "GPUs of nodes: held, free, in which pieces, and how well they are used.",
        [_now(), _over_time(), _pieces(), _use(), [_table()]],
        [Choice("node_pool", "Node pool", "label_values(kai_node_gpus, node_pool)")],
    )


def _gpus(state: str) -> str:
    return f'kai_node_gpus{{{_POOL},state="{state}"}}'


def _now() -> list[Panel]:
    held = f"sum({_gpus('allocated')}) / sum({_gpus('capacity')})"
    return [
        Panel("GPUs", [Query(f"sum({_gpus('capacity')})")], kind="stat", width=4, height=5),
        Panel("Held", [Query(held)], kind="stat", unit="percentunit", width=4, height=5),
        Panel("Free", [Query(f"sum({_gpus('free')})")], kind="stat", width=4, height=5),
        Panel(
            "Fragmentation",
            [Query("kai_gpu_fragmentation_ratio")],
            "Part of the free GPUs that is on nodes where others are taken.",
            kind="stat",
            unit="percentunit",
            width=4,
            height=5,
            limits=((0.5, "orange"), (0.8, "red")),
        ),
        Panel(
            "Broken GPUs",
            [Query("sum(kai_node_unhealthy_gpus) or vector(0)")],
            kind="stat",
            width=4,
            height=5,
            limits=((1, "red"),),
        ),
        Panel(
            "Nodes that take no work",
            [Query(f'sum(kai_nodes{{{_POOL},state!="Ready"}}) or vector(0)')],
            kind="stat",
            width=4,
            height=5,
            limits=((1, "orange"),),
        ),
    ]


def _over_time() -> list[Panel]:
    return [
        Panel(
            "GPUs held and free",
            [
                Query(f"sum({_gpus('allocated')})", "held"),
                Query(f"sum({_gpus('free')})", "free"),
            ],
            stacked=True,
        ),
        Panel(
            "Nodes by state",
            [Query(f"sum by (state) (kai_nodes{{{_POOL}}})", "{{state}}")],
            stacked=True,
        ),
    ]


def _pieces() -> list[Panel]:
    return [
        Panel(
            "Fragmentation",
            [Query("kai_gpu_fragmentation_ratio", "of what is free")],
            unit="percentunit",
        ),
        Panel(
            "Nodes on which a pod with so many GPUs fits",
            [Query("kai_nodes_with_free_gpus", "{{gpus}}")],
            kind="bargauge",
        ),
    ]


def _use() -> list[Panel]:
    return [
        Panel(
            "GPU use",
            [
                Query("avg(kai_node_gpu_utilization_ratio)", "mean of the nodes"),
                Query("quantile(0.1, kai_node_gpu_utilization_ratio)", "least used tenth"),
                Query("quantile(0.9, kai_node_gpu_utilization_ratio)", "most used tenth"),
            ],
            unit="percentunit",
        ),
        Panel(
            "Least used nodes with GPUs held",
            [
                Query(
                    "bottomk(10, kai_node_gpu_utilization_ratio and on (node)"
                    f" ({_gpus('allocated')} > 0))",
                    "{{node}}",
                )
            ],
            kind="bargauge",
            unit="percentunit",
        ),
    ]


def _table() -> Panel:
    return Panel(
        "Nodes now",
        [
            Query(f"sum by (node, node_pool) ({_gpus('capacity')})", "GPUs"),
            Query(f"sum by (node, node_pool) ({_gpus('allocated')})", "Held"),
            Query(f"sum by (node, node_pool) ({_gpus('free')})", "Free"),
            Query(f"sum by (node, node_pool) ({_gpus('shared')})", "Shared"),
        ],
        kind="table",
        width=24,
        height=10,
        renamed={"node": "Node", "node_pool": "Node pool"},
    )

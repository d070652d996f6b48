"""What is sampled, how often, and how long each resolution is kept."""

from __future__ import annotations

from typing import NamedTuple

HOUR_S, DAY_S = 3600, 86_400


class Level(NamedTuple):
    """A mean over each `step_s`, kept for `keep_s`; the first level of a family is as sampled."""

    step_s: int
    keep_s: int


class Family(NamedTuple):
    """`columns` in the order they are packed; `settings` are no amounts: the last one counts."""

    name: str
    columns: tuple[str, ...]
    levels: tuple[Level, ...]
    settings: tuple[str, ...] = ()


_MONTH_S = 30 * DAY_S
QUEUES = Family(
    "queues",
    (
        "quota",
        "limit",
        "fair_share",
        "allocated",
        "requested",
        "waiting",
        "cpu_allocated",
        "cpu_requested",
        "memory_allocated",
        "memory_requested",
    ),
    (Level(30, DAY_S), Level(300, 7 * DAY_S), Level(HOUR_S, _MONTH_S)),
    ("quota", "limit"),
)
NODES = Family(
    "nodes",
    ("gpus", "allocated", "shared", "used", "used_mib", "ready"),
    (Level(60, DAY_S), Level(600, 7 * DAY_S), Level(HOUR_S, _MONTH_S)),
)
CLUSTER = Family(
    "cluster",
    ("gpus", "allocated", "requested", "waiting", "pods", "cycle_s", "used", "whole_nodes"),
    (Level(30, DAY_S), Level(300, 7 * DAY_S), Level(HOUR_S, _MONTH_S)),
)
JOBS = Family(
    "jobs", ("held", "known", "used", "used_mib"), (Level(300, 3 * DAY_S), Level(HOUR_S, _MONTH_S))
)
FAMILIES = {family.name: family for family in (QUEUES, NODES, CLUSTER, JOBS)}

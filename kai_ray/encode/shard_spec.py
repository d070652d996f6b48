"""A SchedulingShard's spec as what the scheduler goes by: policy, node pool, usage, zones.

What KAI's operator turns into flags and plugins is honoured where it says what to decide; what says
how KAI searches or runs (search budgets, memory limits, other flags) has no counterpart here and is
listed in docs/queues.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kai_ray.cluster.port import Object
from kai_ray.history.config import UsageConfig
from kai_ray.scheduler import Policy

from . import shard_usage
from .problems import Malformed
from .shard_policy import read_policy
from .shard_values import mapping, truth
from .zone_rows import OWN_RULES, ZoneRules

_POOL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    pool: str
    policy: Policy
    usage: UsageConfig | None
    zones: ZoneRules = OWN_RULES


def read(
    shard: Object, base: UsageConfig | None = None, state: Path | None = None
) -> ShardSettings:
    """`base`: the usage where the shard says nothing. Raises Malformed."""
    spec: dict[str, Any] = mapping(shard.get("spec"), "spec")
    pool = spec.get("partitionLabelValue") or ""
    if not isinstance(pool, str) or not _POOL.fullmatch(pool):
        mend = f"{str(pool)[:80]!r} is not a label value: at most 63 letters, digits, - _ ."
        raise Malformed("spec.partitionLabelValue", mend)
    usage = base
    if spec.get("usageDBConfig"):
        usage = shard_usage.usage(mapping(spec["usageDBConfig"], "spec.usageDBConfig"), pool, state)
    return ShardSettings(pool, read_policy(spec), usage, _zones(spec))


def _zones(spec: dict[str, Any]) -> ZoneRules:
    """Plugin numa: KAI's is off unless it is named, ours is on where nodes tell of their cells."""
    at = "spec.plugins[numa]"
    stated = mapping(mapping(spec.get("plugins"), "spec.plugins").get("numa"), at)
    given = mapping(stated.get("arguments"), f"{at}.arguments")
    ignored = str(given.get("ignoreList") or "")
    rebuilt, field = given.get("reconstructAvailable"), f"{at}.arguments[reconstructAvailable]"
    return ZoneRules(
        known=stated.get("enabled") is not False,
        ignored=frozenset(part.strip() for part in ignored.split(",") if part.strip()),
        rebuilt=True if rebuilt is None else truth(rebuilt, field),
    )

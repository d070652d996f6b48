"""A SchedulingShard's spec as what the scheduler goes by: policy, node pool, usage.

What KAI's operator turns into flags and plugins is honoured where it says what to decide; what says
how KAI searches or runs (search budgets, memory limits, flags) has no counterpart here and is
listed in docs/queues.md.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kai_ray.api.durations import parse_duration
from kai_ray.cluster.port import Object
from kai_ray.history.config import UsageConfig
from kai_ray.history.prometheus import METRICS
from kai_ray.history.window import UsageSettings, WindowType
from kai_ray.scheduler import Policy
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.actions.consolidation import consolidation
from kai_ray.scheduler.actions.preempt import preempt
from kai_ray.scheduler.actions.reclaim import reclaim
from kai_ray.scheduler.actions.stale_gang import stale_gang
from kai_ray.scheduler.gpu.order import as_they_come, packed, spread_out
from kai_ray.scheduler.policy import Placement, policy
from kai_ray.scheduler.scores.availability import fits_now
from kai_ray.scheduler.scores.gpu_sharing import hosts_share
from kai_ray.scheduler.scores.pod_affinity import liked_company
from kai_ray.scheduler.scores.resource_type import cpu_node_for_cpu_pod
from kai_ray.scheduler.session import Session

from .pod_rows import seconds
from .problems import Malformed

_POOL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SPAN = re.compile(r"(\d+)([smhdwy])")
_SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_LONGEST_S = 10 * 366 * 86_400.0
_SHORTEST_S = 60.0

#: KAI's names and default priorities; the higher goes first.
ACTIONS: dict[str, tuple[int, Callable[[Session], None]]] = {
    "allocate": (500, allocate),
    "consolidation": (400, consolidation),
    "reclaim": (300, reclaim),
    "preempt": (200, preempt),
    "stalegangeviction": (100, stale_gang),
}
#: KAI's plugins that do nothing but score nodes.
SCORE_OF: dict[str, Callable[..., Any]] = {
    "podaffinity": liked_company,
    "nodeavailability": fits_now,
    "gpusharingorder": hosts_share,
    "resourcetype": cpu_node_for_cpu_pod,
}
#: Where usage comes from: our own history file, or a Prometheus server.
CLIENTS = ("history", "prometheus")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    pool: str
    policy: Policy
    usage: UsageConfig | None


def read(
    shard: Object, base: UsageConfig | None = None, state: Path | None = None
) -> ShardSettings:
    """`base`: the usage where the shard says nothing. Raises Malformed."""
    spec: dict[str, Any] = _mapping(shard.get("spec"), "spec")
    pool = spec.get("partitionLabelValue") or ""
    if not isinstance(pool, str) or not _POOL.fullmatch(pool):
        mend = f"{str(pool)[:80]!r} is not a label value: at most 63 letters, digits, - _ ."
        raise Malformed("spec.partitionLabelValue", mend)
    usage = base
    if spec.get("usageDBConfig"):
        usage = _usage(_mapping(spec["usageDBConfig"], "spec.usageDBConfig"), pool, state)
    return ShardSettings(pool, _policy(spec), usage)


def _policy(spec: dict[str, Any]) -> Policy:
    strategy = _mapping(spec.get("placementStrategy"), "spec.placementStrategy")
    gpu = _placement(strategy.get("gpu"), "spec.placementStrategy.gpu")
    cpu = _placement(strategy.get("cpu"), "spec.placementStrategy.cpu")
    off = _switched_off(spec)
    laid_out = (None, None) if "nodeplacement" in off else (gpu, cpu)
    made = policy(*laid_out, _k_value(spec))
    devices = spread_out if gpu is Placement.SPREAD else packed
    made = _without(off, dataclasses.replace(made, device_order=devices))
    packs = gpu is cpu is Placement.BINPACK  # KAI: nothing is moved together where pods spread
    chosen = _actions(spec, {"consolidation": packs})
    evicting = _min_runtimes(made, _mapping(spec.get("minRuntime"), "spec.minRuntime"))
    return dataclasses.replace(made, actions=chosen, evicting=evicting.evicting)


def _switched_off(spec: dict[str, Any]) -> set[str]:
    """Plugins that are disabled; those that have no counterpart here may be named as well."""
    found: set[str] = set()
    for name, raw in _mapping(spec.get("plugins"), "spec.plugins").items():
        said = _mapping(raw, f"spec.plugins[{name}]").get("enabled")
        if said is not None and not isinstance(said, bool):
            raise Malformed(f"spec.plugins[{name}].enabled", f"{said!r} is neither true nor false")
        if said is False:
            found.add(name)
    return found


def _without(off: set[str], made: Policy) -> Policy:
    gone = {SCORE_OF[name] for name in off if name in SCORE_OF}
    changes: dict[str, Any] = {"scores": tuple(s for s in made.scores if s.rate not in gone)}
    if "nominatednode" in off:
        changes["nominated_weight"] = 0.0
    if "gpupack" in off and made.device_order is packed:
        changes["device_order"] = as_they_come
    if "gpuspread" in off and made.device_order is spread_out:
        changes["device_order"] = as_they_come
    return dataclasses.replace(made, **changes)


def _placement(raw: Any, field: str) -> Placement:
    try:
        return Placement(raw or "binpack")
    except ValueError:
        raise Malformed(field, f"{raw!r} is neither binpack nor spread") from None


def _k_value(spec: dict[str, Any]) -> float:
    raw, field = spec.get("kValue"), "spec.kValue"
    if raw is None:
        plugins = _mapping(spec.get("plugins"), "spec.plugins")
        proportion = _mapping(plugins.get("proportion"), "spec.plugins[proportion]")
        arguments = _mapping(proportion.get("arguments"), "spec.plugins[proportion].arguments")
        raw, field = arguments.get("kValue"), "spec.plugins[proportion].arguments[kValue]"
    if raw is None:
        return 1.0
    try:
        value = float(raw)
    except (TypeError, ValueError):
        value = -1.0
    if isinstance(raw, bool) or not 0 <= value <= 1e6:
        raise Malformed(field, f"{raw!r} is not a number from 0 to 1000000")
    return value


def _actions(
    spec: dict[str, Any], defaults: Mapping[str, bool]
) -> tuple[Callable[[Session], None], ...]:
    stated = _mapping(spec.get("actions"), "spec.actions")
    for name in stated:
        if name not in ACTIONS:
            mend = f"is no action: there are {', '.join(ACTIONS)}"
            raise Malformed(f"spec.actions[{name}]", mend)
    order: list[tuple[int, str]] = []
    for name, (priority, _) in ACTIONS.items():
        said = _mapping(stated.get(name), f"spec.actions[{name}]")
        enabled = said.get("enabled")
        if enabled is None:
            enabled = defaults.get(name, True)
        rank = said.get("priority")
        if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int)):
            raise Malformed(f"spec.actions[{name}].priority", f"{rank!r} is not an integer")
        if enabled:
            order.append((-(priority if rank is None else rank), name))
    return tuple(ACTIONS[name][1] for _, name in sorted(order))


def _min_runtimes(made: Policy, stated: dict[str, Any]) -> Policy:
    changes: dict[str, float] = {}
    for key, knob in (
        ("preemptMinRuntime", "preempt_min_runtime_s"),
        ("reclaimMinRuntime", "reclaim_min_runtime_s"),
    ):
        if stated.get(key) is not None:
            changes[knob] = _seconds(stated[key], f"spec.minRuntime.{key}", 0.0)
    if not changes:
        return made
    return dataclasses.replace(made, evicting=dataclasses.replace(made.evicting, **changes))


def _usage(stated: dict[str, Any], pool: str, state: Path | None) -> UsageConfig:
    at = "spec.usageDBConfig"
    client = stated.get("clientType") or "history"
    if client not in CLIENTS:
        raise Malformed(f"{at}.clientType", f"{client!r} is none of {', '.join(CLIENTS)}")
    url = _connection(stated, at, client)
    if client == "prometheus" and not url:
        client = "history"  # no server is named: our own record is the one that is at hand
    params = _mapping(stated.get("usageParams"), f"{at}.usageParams")
    extra = _mapping(params.get("extraParams"), f"{at}.usageParams.extraParams")
    settings = _settings(params, f"{at}.usageParams")
    file = None
    if client == "history":
        file = Path(url) if url else (state / history_name(pool) if state else None)
    stale = params.get("stalenessPeriod")
    return UsageConfig(
        settings,
        file,
        url if client == "prometheus" else "",
        tuple((name, extra.get(name) or query) for name, query in METRICS.items()),
        _seconds(stale, f"{at}.usageParams.stalenessPeriod", 1.0) if stale else 300.0,
        _seconds(
            extra.get("queryResolution") or extra.get("usageQueryResolution") or "1m",
            f"{at}.usageParams.extraParams[queryResolution]",
            1.0,
        ),
        _seconds(
            extra.get("usageQueryTimeout") or "10s",
            f"{at}.usageParams.extraParams[usageQueryTimeout]",
            0.001,
        ),
    )


def history_name(pool: str) -> str:
    """The history file of a node pool, inside the folder of the state."""
    return f"history-{pool}.sqlite" if pool else "history.sqlite"


def _connection(stated: dict[str, Any], at: str, client: str) -> str:
    direct = stated.get("connectionString") or ""
    variable = stated.get("connectionStringEnvVar") or ""
    if direct and variable:
        mend = "cannot be given together with connectionString: keep one"
        raise Malformed(f"{at}.connectionStringEnvVar", mend)
    if variable:
        direct = os.environ.get(str(variable), "")
        if not direct:
            mend = f"the environment has no variable {str(variable)[:80]!r}: set it"
            raise Malformed(f"{at}.connectionStringEnvVar", mend)
    if client == "prometheus" and direct and not str(direct).startswith(("http://", "https://")):
        mend = f"{str(direct)[:80]!r} is not the address of a server: write http://HOST:PORT"
        raise Malformed(f"{at}.connectionString", mend)
    return str(direct)


def _settings(params: dict[str, Any], at: str) -> UsageSettings:
    kind = params.get("windowType") or "sliding"
    if kind == "cron":
        mend = "cron windows are not offered: use tumbling with a windowSize and a start"
        raise Malformed(f"{at}.windowType", mend)
    if kind not in ("sliding", "tumbling"):
        raise Malformed(f"{at}.windowType", f"{kind!r} is neither sliding nor tumbling")
    half = params.get("halfLifePeriod")
    half_life = _seconds(half, f"{at}.halfLifePeriod", None) if half else 0.0
    window = params.get("windowSize")
    interval = params.get("fetchInterval")
    begin = params.get("tumblingWindowStartTime")
    return UsageSettings(
        window_s=_seconds(window, f"{at}.windowSize", _SHORTEST_S) if window else 604_800.0,
        half_life_s=half_life if half_life > 0 else None,
        window=WindowType(kind),
        start_s=_moment(begin, f"{at}.tumblingWindowStartTime") if begin else 0.0,
        interval_s=_seconds(interval, f"{at}.fetchInterval", 1.0) if interval else 60.0,
    )


def _seconds(raw: Any, field: str, least: float | None) -> float:
    """A Go duration, or Prometheus' own form with days and weeks ("1w", "7d12h")."""
    found = parse_duration(raw) if isinstance(raw, str) else None
    if found is None and isinstance(raw, str) and raw:
        parts = _SPAN.findall(raw)
        if "".join(n + u for n, u in parts) == raw:
            found = float(sum(int(n) * _SPAN_S[u] for n, u in parts))
    if found is None or found > _LONGEST_S:
        raise Malformed(field, f"{raw!r} is not a duration such as 24h or 1w, of at most 10 years")
    if least is not None and found < least:
        raise Malformed(field, f"{raw!r} is too short: the least is {least:g}s")
    return found


def _moment(raw: Any, field: str) -> float:
    try:
        return seconds(raw)
    except (Malformed, TypeError):
        mend = f"{raw!r} is not a time: write it as 2026-01-31T12:00:00Z (RFC 3339)"
        raise Malformed(field, mend) from None


def _mapping(raw: Any, field: str) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise Malformed(field, "must be an object")
    return raw

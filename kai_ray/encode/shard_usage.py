"""Where a SchedulingShard says that usage comes from, and how it counts."""

from __future__ import annotations

import os
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

from kai_ray.api import cron
from kai_ray.history.config import UsageConfig
from kai_ray.history.prometheus import METRICS
from kai_ray.history.window import WEEK_S, UsageSettings, WindowType

from .problems import Malformed
from .shard_values import duration, mapping, moment

#: Where usage comes from: our own history file, or a Prometheus server.
CLIENTS = ("history", "prometheus")
_SHORTEST_S = 60.0
#: Moments of a schedule that its longest gap is looked for in.
_SOME = 64


def usage(stated: dict[str, Any], pool: str, state: Path | None) -> UsageConfig:
    at = "spec.usageDBConfig"
    client = stated.get("clientType") or "history"
    if client not in CLIENTS:
        raise Malformed(f"{at}.clientType", f"{client!r} is none of {', '.join(CLIENTS)}")
    url = _connection(stated, at, client)
    if client == "prometheus" and not url:
        client = "history"  # no server is named: our own record is the one that is at hand
    params = mapping(stated.get("usageParams"), f"{at}.usageParams")
    extra = mapping(params.get("extraParams"), f"{at}.usageParams.extraParams")
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
        duration(stale, f"{at}.usageParams.stalenessPeriod", 1.0) if stale else 300.0,
        duration(
            extra.get("queryResolution") or extra.get("usageQueryResolution") or "1m",
            f"{at}.usageParams.extraParams[queryResolution]",
            1.0,
        ),
        duration(
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
    if kind not in [k.value for k in WindowType]:
        raise Malformed(f"{at}.windowType", f"{kind!r} is none of sliding, tumbling and cron")
    half = params.get("halfLifePeriod")
    half_life = duration(half, f"{at}.halfLifePeriod", None) if half else 0.0
    window = params.get("windowSize")
    interval = params.get("fetchInterval")
    begin = params.get("tumblingWindowStartTime")
    length = duration(window, f"{at}.windowSize", _SHORTEST_S) if window else WEEK_S
    schedule = _schedule(params, at) if kind == WindowType.CRON.value else None
    return UsageSettings(
        window_s=max(length, _longest_gap(schedule)) if schedule else length,
        schedule=schedule,
        half_life_s=half_life if half_life > 0 else None,
        window=WindowType(kind),
        start_s=moment(begin, f"{at}.tumblingWindowStartTime") if begin else 0.0,
        interval_s=duration(interval, f"{at}.fetchInterval", 1.0) if interval else 60.0,
    )


def _schedule(params: dict[str, Any], at: str) -> cron.Schedule:
    field = "tumblingWindowCronString"
    try:
        found = cron.parse(str(params.get(field) or ""))
    except ValueError as error:
        raise Malformed(f"{at}.{field}", str(error)) from None
    if found.after(0.0, UTC) is None:
        raise Malformed(f"{at}.{field}", "never comes: name a day that exists")
    return found


def _longest_gap(schedule: cron.Schedule) -> float:
    """Seconds between two of its moments, the most of some."""
    moments = [schedule.after(0.0, UTC) or 0.0]
    for _ in range(_SOME):
        moments.append(schedule.after(moments[-1], UTC) or moments[-1])
    return max(b - a for a, b in pairwise(moments))

"""Lives of jobs, written shortly: `life("grouped@0 waits@1:InsufficientGpu started@60 ...")`."""

from __future__ import annotations

import re
from typing import Any

from kai_ray.history.job_event import JobEvent

START_S = 1_800_000_000.0
_WORD = re.compile(r"(\w+)@(\d+)(?::(\w+))?(?:/(\w+))?(!?)")


def event(what: Any, at_s: float, reason: str = "", group: str = "g", **more: Any) -> JobEvent:
    gpus = more.pop("gpus", 8.0)
    runs = what in ("started", "resumed", "ready", "grew", "shrunk")
    fields: dict[str, Any] = {
        "at_s": START_S + at_s,
        "what": what,
        "uid": "u1",
        "namespace": "default",
        "name": "train",
        "kind": "RayJob",
        "api_version": "ray.io/v1",
        "group": group,
        "queue": "vision",
        "user": "ada",
        "pool": "",
        "gpus": gpus,
        "held": gpus if runs else 0.0,
        "pods": int(runs),
        "reason": reason,
        "message": f"{reason} it is" if reason else "",
        "nodes": ("n-0",) if runs else (),
        "types": (("NVIDIA-H100-80GB-HBM3", gpus),) if runs else (),
    }
    return JobEvent(**{**fields, **more})


def life(text: str) -> list[JobEvent]:
    """`what@second[:reason][/group][!]`, "!" = told again after a restart."""
    found: list[JobEvent] = []
    for what, at, reason, group, again in _WORD.findall(text):
        found.append(event(what, float(at), reason, group or "g", replayed=bool(again)))
    return found

"""Whether somebody says that a checkpoint is being written just now."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.api import labels as names
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object

#: A checkpoint that was begun longer ago than this is taken for forgotten.
LONGEST_S = 3600.0
_NO = ("", "false", "no", "0")


def saving(objects: Iterable[Object], now_s: float) -> str:
    """A sentence's end; "" where nobody does.

    `kai.scheduler/checkpointing` is "true", or when it began (RFC 3339). What cannot be read counts
    as "true": better a job too long than a checkpoint in halves.
    """
    for obj in objects:
        meta = obj["metadata"]
        text = str((meta.get("annotations") or {}).get(names.CHECKPOINTING) or "").strip()
        if text.lower() in _NO:
            continue
        try:
            since = epoch(text)
        except (ValueError, TypeError):
            since = now_s
        if since > now_s - LONGEST_S:
            kind = obj.get("kind") or "PodGroup"
            return f"{kind} {meta['name']} is writing a checkpoint ({names.CHECKPOINTING}: {text})"
    return ""

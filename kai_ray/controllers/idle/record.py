"""What is on record about an idle gang: an annotation of its PodGroup, so that restarts go on."""

from __future__ import annotations

import json
from typing import NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Object
from kai_ray.encode.idle_rules import Action, IdleRule

_ACTIONS: tuple[Action, ...] = ("warn", "suspend", "evict")


class IdleRecord(NamedTuple):
    """A gang that was warned."""

    since_s: float  # idle since then
    warned_s: float
    rule: str  # in words
    action: Action
    due_s: float  # when the action follows
    enforce: bool
    done: bool = False  # said what a dry run would have done; nothing more follows

    @property
    def ends(self) -> bool:
        """Whether the gang has to leave when its time is up."""
        return self.enforce and self.action != "warn"


def recorded(since_s: float, now_s: float, rule: IdleRule) -> IdleRecord:
    due = now_s + rule.after_s
    return IdleRecord(since_s, now_s, str(rule), rule.action, due, rule.enforce)


def written(record: IdleRecord) -> str:
    return json.dumps(
        {
            "since": rfc3339(record.since_s),
            "warned": rfc3339(record.warned_s),
            "rule": record.rule,
            "action": record.action,
            "due": rfc3339(record.due_s),
            "enforce": record.enforce,
            **({"done": True} if record.done else {}),
        }
    )


def read(group: Object) -> IdleRecord | None:
    """None where there is none, or none that can be read: then the gang is warned anew."""
    text = (group["metadata"].get("annotations") or {}).get(names.IDLE)
    if not text:
        return None
    try:
        found = json.loads(text)
        action = found["action"]
        if action not in _ACTIONS:
            return None
        return IdleRecord(
            epoch(found["since"]),
            epoch(found["warned"]),
            str(found["rule"]),
            action,
            epoch(found["due"]),
            found["enforce"] is True,
            found.get("done") is True,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None

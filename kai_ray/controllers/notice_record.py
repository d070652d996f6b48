"""Notices of eviction, as they stand on a PodGroup and as users read them on their objects.

The PodGroup's annotation is what a restart goes on from: a list, one entry for each reason and
beneficiary. The user's is one short JSON object with the earliest deadline.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Key, Object
from kai_ray.controllers.victims import PodRef
from kai_ray.scheduler.reason import Reason


@dataclass(frozen=True, slots=True)
class Notice:
    """Pods of one gang that have to leave by `deadline_s`."""

    reason: Reason
    beneficiary: Key | None
    message: str
    since_s: float
    deadline_s: float
    whole: bool  # the gang goes as a whole; else `pods` do
    pods: tuple[PodRef, ...] = ()
    drains: bool = False  # Ray is asked to empty the nodes of its workers
    asked: bool = True  # the workload or its queue gives the time; else only Ray needs it
    final: bool = False  # what was told to end cannot be told to stay
    announced: bool = False  # somebody else ends the gang then: nothing is freed before

    @property
    def slot(self) -> tuple[Reason, Key | None]:
        return self.reason, self.beneficiary

    def of(self, pod: str) -> bool:
        return self.whole or any(ref.key.name == pod for ref in self.pods)


def notices_of(group: Object) -> tuple[Notice, ...]:
    """The notices that a PodGroup carries."""
    meta = group["metadata"]
    text = (meta.get("annotations") or {}).get(names.EVICTION_NOTICES)
    return read_notices(text, meta.get("namespace") or "")


def read_notices(text: Any, namespace: str) -> tuple[Notice, ...]:
    """Notices that cannot be read are none: what they freed is decided anew."""
    if not isinstance(text, str) or not text:
        return ()
    try:
        return tuple(_notice(raw, namespace) for raw in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _notice(raw: Mapping[str, Any], namespace: str) -> Notice:
    other = raw.get("for")
    space, _, name = str(other or "").partition("/")
    pods = tuple(PodRef(Key(namespace, str(n)), str(u)) for n, u in raw.get("pods") or ())
    return Notice(
        reason=Reason[raw["reason"]],
        beneficiary=Key(space, name) if other else None,
        message=str(raw["message"]),
        since_s=epoch(raw["since"]),
        deadline_s=epoch(raw["deadline"]),
        whole=bool(raw.get("whole")),
        pods=pods,
        **{flag: bool(raw.get(flag)) for flag in _FLAGS},
    )


_FLAGS = ("drains", "asked", "final", "announced")


def write_notices(notices: Sequence[Notice]) -> str | None:
    """The annotation; None where there is nothing to say."""
    if not notices:
        return None
    return json.dumps([_raw(n) for n in notices], sort_keys=True)


def _raw(notice: Notice) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "reason": notice.reason.name,
        "message": notice.message,
        "since": rfc3339(notice.since_s),
        "deadline": rfc3339(notice.deadline_s),
        "pods": [[ref.key.name, ref.uid] for ref in notice.pods],
    }
    if notice.beneficiary is not None:
        raw["for"] = f"{notice.beneficiary.namespace}/{notice.beneficiary.name}"
    raw |= {flag: True for flag in ("whole", *_FLAGS) if getattr(notice, flag)}
    return raw


def with_notice(known: Sequence[Notice], new: Notice) -> tuple[Notice, ...]:
    """`known` and the new one in its place; a notice is never put off by being given again."""
    for old in known:
        if old.slot == new.slot and old.announced == new.announced:
            pods = tuple(dict.fromkeys((*old.pods, *new.pods)))
            due = new.deadline_s if new.announced else min(old.deadline_s, new.deadline_s)
            both = dataclasses.replace(
                new, since_s=old.since_s, deadline_s=due, whole=old.whole or new.whole, pods=pods
            )
            return tuple(both if n is old else n for n in known)
    return (*known, new)


def for_users(notice: Notice) -> str:
    """What the annotation on workloads and pods says; a file in a pod's Downward API volume."""
    told = {
        "reason": notice.reason.word,
        "deadline": rfc3339(notice.deadline_s),
        "since": rfc3339(notice.since_s),
        "message": notice.message,
    }
    return json.dumps(told)

"""Usage over time as annotations of Queues: what the scheduler goes by, for who asks from outside.

`kai explain` decides again on what the API server holds; the record of usage is in a file of the
scheduler's, or in its memory. A Queue says its part of the cluster and those of its users, rounded;
it is written again when a part has moved by a hundredth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Port, Write
from kai_ray.history.usage import Amounts, Holder, Usage

_STEP = 0.01
_DIGITS = 4
#: Users that a Queue tells of: those who had most.
_MOST_USERS = 100
_NOTHING: Amounts = (0.0, 0.0, 0.0)


def writes(port: Port, queues: Iterable[Object], usage: Usage) -> Iterator[Write]:
    """One for each Queue that says something else by now."""
    users: dict[str, list[Holder]] = {}
    for holder in usage.users:
        users.setdefault(holder.queue, []).append(holder)
    for queue in queues:
        name = queue["metadata"]["name"]
        mine = sorted(users.get(name, ()), key=lambda h: (-max(usage.users[h]), h.user))
        told = {"": usage.queues.get(name, _NOTHING)}
        told |= {holder.user: usage.users[holder] for holder in mine[:_MOST_USERS]}
        if _moved(read(queue), told):
            yield Write(port.patch, (kinds.QUEUE, name, _patch(told)))


def erased(port: Port, queues: Iterable[Object]) -> Iterator[Write]:
    """Takes the annotation off wherever it is."""
    for queue in queues:
        if names.USAGE in (queue["metadata"].get("annotations") or {}):
            body = {"metadata": {"annotations": {names.USAGE: None}}}
            yield Write(port.patch, (kinds.QUEUE, queue["metadata"]["name"], body))


def read(queue: Object) -> dict[str, Amounts]:
    """By user, "" being the whole queue. What cannot be read says nothing."""
    try:
        raw = json.loads((queue["metadata"].get("annotations") or {}).get(names.USAGE) or "{}")
        return {str(user): (float(a), float(b), float(c)) for user, (a, b, c) in raw.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def usage_of(queues: Iterable[Object]) -> Usage:
    """What Queues say, put together again."""
    found, users = dict[str, Amounts](), dict[Holder, Amounts]()
    for queue in queues:
        name = queue["metadata"]["name"]
        for user, amounts in read(queue).items():
            if user:
                users[Holder(name, user)] = amounts
            else:
                found[name] = amounts
    return Usage(found, users)


def _moved(before: dict[str, Amounts], now: dict[str, Amounts]) -> bool:
    return any(
        abs(a - b) >= _STEP
        for user in before.keys() | now.keys()
        for a, b in zip(before.get(user, _NOTHING), now.get(user, _NOTHING), strict=True)
    )


def _patch(told: dict[str, Amounts]) -> Object:
    rounded = {user: [round(a, _DIGITS) for a in of] for user, of in told.items() if any(of)}
    return {"metadata": {"annotations": {names.USAGE: json.dumps(rounded) if rounded else None}}}

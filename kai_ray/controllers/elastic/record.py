"""What the user asked for, next to what was given: kept on the workload, in one annotation.

It is written in the same request as the size itself, so that no crash comes between. A size that is
neither is the user's new word.
"""

from __future__ import annotations

import json

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

#: part -> (asked, given)
Record = dict[str, tuple[int, int]]


def record_of(workload: Object) -> Record:
    """Empty where nothing was given, and where somebody wrote something else there."""
    text = (workload["metadata"].get("annotations") or {}).get(names.ELASTIC_SIZE)
    if not text:
        return {}
    try:
        found = json.loads(text)
        return {
            str(part): (int(row["asked"]), int(row["given"])) for part, row in sorted(found.items())
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def asked_for(record: Record, part: str, now: int) -> int:
    """The user's own number of a part whose size is `now`."""
    asked, given = record.get(part, (now, now))
    return asked if given == now else now


def noted(workload: Object, part: str, asked: int, given: int) -> Object:
    """The workload (changed in place) with the record of a part; none where nothing was given."""
    record = record_of(workload)
    record.pop(part, None)
    if given != asked:
        record[part] = asked, given
    annotations = workload["metadata"].setdefault("annotations", {})
    if record:
        rows = {part: {"asked": a, "given": g} for part, (a, g) in sorted(record.items())}
        annotations[names.ELASTIC_SIZE] = json.dumps(rows, separators=(",", ":"))
    else:
        annotations.pop(names.ELASTIC_SIZE, None)
    return workload

"""Prints a digest of every Plan made while all recorded cases run: the same under any hash seed."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kai_ray.scheduler import Plan
from tests.conformance import rounds
from tests.conformance.policies import decide
from tests.conformance.runner import read
from tests.conformance.scenario import World


def digest(folder: Path) -> tuple[int, str]:
    """How many Plans the cases of the folder led to, and one hash over all that is in them."""
    made, total = 0, hashlib.sha256()
    for path in sorted(folder.glob("scheduler__*.jsonl")):
        for case in read(path):
            plans = _plans(case)
            made += len(plans)
            for plan in plans:
                for field in dataclasses.fields(plan):
                    total.update(_content(getattr(plan, field.name)))
    return made, total.hexdigest()


def _plans(case: dict[str, Any]) -> list[Plan]:
    """What was decided while the case ran, in order."""
    plans: list[Plan] = []
    deciding = decide(case)

    def noted(world: World) -> Plan:
        plans.append(deciding(world))
        return plans[-1]

    rounds.run(case, noted)
    return plans


def _content(value: Any) -> bytes:
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()


if __name__ == "__main__":
    print(*digest(Path(sys.argv[1])))

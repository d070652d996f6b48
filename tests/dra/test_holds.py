"""Room that is kept for a pod until others have left counts the devices of its claims."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kai_ray.scheduler import DEFAULT, decide
from tests.control.encoding import NOW
from tests.dra import objects as o
from tests.dra.planning import Planned


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_a_hold_promises_no_more_devices_than_there_are(gpus: int) -> None:
    """Two of them for the shared claim of a pod that is kept out by somebody's taint."""
    world = Planned(o.slice_of("node-0", o.gpus(gpus)))
    world.apply(o.claim("shared", o.spec(o.exactly(count=2)), queue="team", meta={"uid": "s"}))
    world.pod("held", claim="shared", nodeSelector={"no": "where"})
    world.pod("other", o.spec())
    encoded = world.encoded()
    s, n = encoded.snapshot, encoded.names
    until = np.full(s.gangs.count, np.nan)
    until[[g.name for g in n.gangs].index("held")] = NOW + 60
    nominated = np.where([n.pod(t).name == "held" for t in range(s.tasks.count)], 0, -1)
    kept = dataclasses.replace(
        s,
        gangs=dataclasses.replace(s.gangs, hold_until_s=until),
        tasks=dataclasses.replace(s.tasks, nominated=nominated.astype(np.int32)),
    )
    plan = decide(kept, DEFAULT)
    bound = [n.pod(t).name for t in plan.bind_task.tolist()]
    assert bound == (["other"] if gpus != 2 else []), "two are kept where there are two"

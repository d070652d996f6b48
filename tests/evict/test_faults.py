"""An eviction cut short at any write ends as if it had not been: nothing twice, nothing in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.suspension import is_suspended
from tests.control.faults import Crash, FaultyPort, Mode

from .world import EvictWorld


def _start(folder: Path) -> EvictWorld:
    """A gang by its switch, an elastic job in part; their room is claimed by one gang."""
    world = EvictWorld("1x8", state_dir=folder)
    world.queues(a=6, b=2)
    world.torch("lent", "b", 2, 2)
    world.deployment("web", "b", 4, 1, labels={L.PRIORITY_CLASS: "train"})
    world.run(10)
    assert len(world.running()) == 6
    return world


def _claim(world: EvictWorld) -> None:
    world.torch("own", "a", 3, 2)


def _end(world: EvictWorld) -> dict[str, Any]:
    return {
        "own": len(world.running("own")),
        "lent": len(world.running("lent")),
        "web": len(world.running("web")),
        "suspended": is_suspended(R.PYTORCH_JOB, world.store.get(R.PYTORCH_JOB, "lent", "default")),
        "holds": [g["metadata"]["name"] for g in world.groups() if _held(g)],
        "marks": _marks(world),
    }


def _held(group: dict[str, Any]) -> bool:
    return L.HOLD in (group["metadata"].get("annotations") or {})


def _marks(world: EvictWorld) -> bool:
    job = world.store.get(R.PYTORCH_JOB, "lent", "default")
    return L.RESUME_AT in (job["metadata"].get("annotations") or {})


def _life(folder: Path, at: int, mode: Mode) -> tuple[dict[str, Any], int, int]:
    """(the end, writes of the first life, pods that had to leave)."""
    world = _start(folder)
    port = FaultyPort(world.store, at, mode)
    world.cluster.runtime.port = port  # pyright: ignore[reportAttributeAccessIssue]
    left = _count_leavers(world)
    _claim(world)
    try:
        world.run(90)
    except Crash:
        now = world.cluster.clock.now()
        world.cluster.stop()
        world = EvictWorld("1x8", state_dir=folder, clock_s=now)
        again = _count_leavers(world)
        world.run(240)
        left |= again
    else:
        world.run(150)
    end = _end(world)
    world.cluster.stop()
    return end, port.writes, len(left)


def _count_leavers(world: EvictWorld) -> set[str]:
    seen: set[str] = set()

    def note(old: Any, new: Any) -> None:
        for pod in (old, new):
            meta = (pod or {"metadata": {}})["metadata"]
            if meta.get("deletionTimestamp") and pod["spec"].get("nodeName"):
                seen.add(meta["uid"])

    world.cluster.runtime.informer(R.POD).on_change(note)
    return seen


def test_an_eviction_is_the_same_wherever_it_is_cut(tmp_path: Path) -> None:
    calm, writes, left = _life(tmp_path / "calm", -1, "before")
    assert calm["own"] == 3
    assert not calm["suspended"] and not calm["holds"] and not calm["marks"]
    assert writes < 80
    # A crash before one write is a crash after the one before it.
    modes: tuple[Mode, ...] = ("crash after", "before", "after", "conflict")
    for at in range(writes):
        for mode in (modes[0], modes[1 + at % 3]):
            end, _, gone = _life(tmp_path / f"{at}-{mode.replace(' ', '-')}", at, mode)
            assert end == calm, (at, mode)
            assert gone == left, (at, mode, "nothing is evicted twice or in vain")


@pytest.mark.parametrize("limit", [1, 3])
def test_the_pace_of_evictions_is_kept(limit: int) -> None:
    with EvictWorld("1x8") as world:
        control = world.cluster.control
        object.__setattr__(control.loop._config, "evictions_per_minute", limit)
        world.queues(a=8, b=0)
        for i in range(8):
            world.job(f"lent-{i}", "b", 1)
        world.run(10)
        for i in range(8):
            world.job(f"own-{i}", "a", 1)
        world.run(50)
        assert len(world.running("own")) == limit
        world.run(60)
        assert len(world.running("own")) == 2 * limit


def test_the_pace_of_evictions_is_kept_over_a_restart(tmp_path: Path) -> None:
    def paced(now: float | None = None) -> EvictWorld:
        made = EvictWorld("1x8", state_dir=tmp_path, clock_s=now)
        object.__setattr__(made.cluster.control.loop._config, "evictions_per_minute", 2)
        return made

    world = paced()
    world.queues(a=8, b=0)
    for i in range(8):
        world.job(f"lent-{i}", "b", 1)
    world.run(10)
    for i in range(8):
        world.job(f"own-{i}", "a", 1)
    assert world.until(lambda: len(world.running("own")) == 2, 40)
    now = world.cluster.clock.now()
    world.cluster.stop()
    with paced(now) as world:
        world.run(25)
        assert len(world.running("own")) == 2  # the minute is not over
        assert world.until(lambda: len(world.running("own")) == 4, 60)


def test_a_hold_ends_in_time_and_others_get_the_room() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.torch("lent", "b", 4, 2)
        world.run(10)
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: L.HOLD in world.annotations("own"), 30)
        world.store.delete(R.PYTORCH_JOB, "own", "default")
        assert world.until(lambda: len(world.running("lent")) == 4, 120)

"""From the driver to the rule: an agent's figures, and no model, decide which job is idle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kai_ray.agent.agent import Agent, AgentConfig
from kai_ray.agent.library import LIBRARY
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from tests.agent.stand_in import CONTAINER, device
from tests.idle.worlds import World, world

RULE = "below 5% for 10m, suspend after 5m, enforce"


def _pod(w: World, job: str) -> Object:
    (found,) = (
        p for p in w.port.list(kinds.POD, "default").items if p["metadata"]["name"].startswith(job)
    )
    return found


def test_a_job_whose_processes_rest_is_suspended_and_its_neighbour_is_not(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, proc = tmp_path / "driver.txt", tmp_path / "proc"
    monkeypatch.setenv(LIBRARY, str(library))
    monkeypatch.setenv("KAI_STAND_IN", str(driver))

    def says(first: int, second: int) -> None:
        lines = [device(0, util=first), device(1, util=second), device(2), device(3)]
        lines += [f"proc 0 100 9000 {first} -1\n", f"proc 1 101 9000 {second} -1\n"]
        fresh = driver.with_suffix(".new")
        fresh.write_text("driver 550\n" + "".join(lines))
        os.replace(fresh, driver)

    with world(nodes=1, period=0) as w:  # the model tells nothing
        w.queue("team", RULE)
        w.job("rests", "", pods=1, gpus=1)
        w.job("works", "", pods=1, gpus=1)
        w.run(1)
        for pid, job in ((100, "rests"), (101, "works")):
            uid = _pod(w, job)["metadata"]["uid"]
            (proc / str(pid)).mkdir(parents=True)
            text = f"0::/kubepods/pod{uid}/{CONTAINER}\n"
            (proc / str(pid) / "cgroup").write_text(text)
        says(90, 90)
        config = AgentConfig("n-0", proc=proc, sys=tmp_path)
        agent = Agent(config, w.port, now=w.cluster.clock.now)
        for half_minutes in range(60):
            if half_minutes == 10:
                says(2, 90)
            agent.look()
            agent.turn()
            w.run(0.5)
            if half_minutes == 30:
                assert w.running("rests") == 1, "its ten minutes and the grace are not over"
        agent.close()
        assert w.running("rests") == 0 and w.running("works") == 1
        assert "uses 2 % of its 1 GPU:" in w.told[0][1]

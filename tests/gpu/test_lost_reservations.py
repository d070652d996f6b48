"""A pod that keeps a shared card is lost: its users keep the card, or are told that it is gone."""

from __future__ import annotations

import pytest

from kai_ray.cluster import resources as r
from tests.gpu.stage import Stage


def _running(**options: int) -> Stage:
    stage = Stage(**options)
    stage.scheduler()
    stage.pods("a", "b")
    assert stage.until(lambda: len(stage.placed()) == 2)
    return stage


def _lose(stage: Stage) -> str:
    (keeper,) = stage.keepers()
    meta = keeper["metadata"]
    stage.store.delete(r.POD, meta["name"], meta["namespace"], grace_s=0)
    return meta["uid"]


def _healed(stage: Stage, lost: str) -> bool:
    keepers = stage.keepers()
    return len(keepers) == 1 and keepers[0]["metadata"]["uid"] != lost and not stage.wrong()


@pytest.mark.parametrize("seed", range(6))
def test_it_is_made_again_with_the_card_that_is_in_use(seed: int) -> None:
    stage = _running(gpus=4, seed=seed)
    before = stage.placed()
    lost = _lose(stage)
    assert stage.until(lambda: _healed(stage, lost), 30)
    stage.run(5)
    assert stage.placed() == before
    assert "made again" in stage.events("a")["GPUReservationLost"]
    stage.pod("whole", gpus=3)
    assert stage.until(lambda: "whole" in stage.placed())
    assert _healed(stage, lost)


@pytest.mark.parametrize("seed", range(4))
def test_who_comes_meanwhile_waits_for_the_right_card(seed: int) -> None:
    stage = _running(gpus=2, seed=seed)
    lost = _lose(stage)
    stage.pods("c", "d")
    assert stage.until(lambda: len(stage.placed()) == 4)
    assert stage.until(lambda: stage.wrong() == [], 10)
    assert lost not in [k["metadata"]["uid"] for k in stage.keepers()]


def test_a_card_that_was_given_away_takes_its_users_with_it() -> None:
    stage = Stage(gpus=1)
    runtime, _ = stage.scheduler()
    stage.pods("a", "b")
    assert stage.until(lambda: len(stage.placed()) == 2)
    stage.kill(runtime)
    _lose(stage)
    stage.pod("stranger", gpus=1, scheduler="another", node="node-0")
    stage.run(1)
    stage.scheduler()
    stage.run(10)
    assert stage.placed().keys() == {"stranger"}
    assert "given away" in stage.events("a")["GPULost"]
    assert stage.keepers() == []
    assert stage.wrong() == []


def test_a_keeper_that_fails_is_replaced() -> None:
    stage = _running(gpus=3)
    (keeper,) = stage.keepers()
    meta = keeper["metadata"]
    before = stage.placed()
    status = {"status": {"phase": "Failed", "reason": "Evicted"}}
    stage.store.patch(r.POD, meta["name"], status, meta["namespace"], subresource="status")
    assert stage.until(lambda: _healed(stage, meta["uid"]), 30)
    assert stage.placed() == before


def test_all_are_made_again_after_a_restart_that_saw_none_of_it() -> None:
    stage = Stage(gpus=2)
    runtime, _ = stage.scheduler()
    stage.pods("a", "b", "c")
    assert stage.until(lambda: len(stage.placed()) == 3)
    before = stage.placed()
    stage.kill(runtime)
    for keeper in stage.keepers():
        meta = keeper["metadata"]
        stage.store.delete(r.POD, meta["name"], meta["namespace"], grace_s=0)
    stage.run(1)
    stage.scheduler()
    assert stage.until(lambda: len(stage.keepers()) == 2 and not stage.wrong(), 30)
    assert stage.placed() == before

"""Every write on the way to a shared card fails, or is where a scheduler dies or falls asleep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Resource
from kai_ray.controllers.config import ControlConfig
from tests.control.faults import Crash, FaultyPort, Mode
from tests.gpu.stage import FAST, Stage

pytestmark = pytest.mark.slow

#: Two cards: both are opened, one is joined by a second pod, one by a larger share.
ASKED = {"a": "0.5", "b": "0.5", "c": "0.6"}
_BY_REQUEST = ControlConfig(period_s=0.05, bind_requests="always")
_MOST = 60
_ON_THE_WAY = {r.POD, r.CONFIG_MAP, r.NAMESPACE, r.SERVICE_ACCOUNT, r.BIND_REQUEST}


class _Port(FaultyPort):
    """Counts the writes on the way to a card, and none of what is only told about it."""

    def _write(self, call: Any, args: Any, kwargs: Any) -> Any:
        told = kwargs.get("subresource") == "status" and args[0] == r.POD
        if isinstance(args[0], Resource) and (told or args[0] not in _ON_THE_WAY):
            return call(*args, **kwargs)
        self._count()
        return super()._write(call, args, kwargs)

    def _count(self) -> None:
        """Called before each of them."""


def _stage(**options: Any) -> Stage:
    stage = Stage(gpus=2, **options)
    for name, fraction in ASKED.items():
        stage.pod(name, fraction)
    return stage


def _all_run(stage: Stage) -> bool:
    return stage.placed().keys() >= ASKED.keys()


@pytest.mark.parametrize("config", [FAST, _BY_REQUEST], ids=["directly", "by request"])
@pytest.mark.parametrize("mode", ["before", "after", "conflict", "crash before", "crash after"])
def test_no_write_that_fails_promises_a_card_twice(mode: Mode, config: ControlConfig) -> None:
    for at in range(_MOST):
        stage = _stage()
        port = _Port(stage.store, at, mode)
        runtime, _ = stage.scheduler(port, config)
        try:
            stage.until(lambda stage=stage: _all_run(stage), 90)
            stage.run(1)
        except Crash:
            stage.kill(runtime)
            assert stage.judge.wrong == []
            stage.scheduler(None, config)
        last, port.at = port.writes <= at, -1
        assert stage.until(lambda stage=stage: _all_run(stage), 180), (at, stage.placed())
        stage.run(15)
        assert stage.wrong() == [], at
        assert stage.plugin.refused == [], at
        if last:
            return
    raise AssertionError(f"more than {_MOST} writes")


class _Sleeper(_Port):
    """Falls asleep before its n-th write; the others live on meanwhile, then it goes on."""

    def __init__(self, inner: Any, nap: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self._nap, self._meanwhile = nap, meanwhile

    def _count(self) -> None:
        if self.writes == self._nap:
            self._meanwhile()


@pytest.mark.parametrize("nap_s", [0.5, 30.0])
def test_of_two_live_schedulers_one_sleeps_at_any_write(nap_s: float) -> None:
    for at in range(_MOST):
        stage = _stage()

        def meanwhile(stage: Stage = stage) -> None:
            other, _ = stage.scheduler()
            stage.run(nap_s, only=other)

        port = _Sleeper(stage.store, at, meanwhile)
        stage.scheduler(port)
        stage.until(lambda stage=stage: _all_run(stage), 200)
        stage.run(15)
        assert stage.wrong() == [], at
        assert stage.plugin.refused == [], at
        assert _all_run(stage), (at, stage.placed())
        if port.writes <= at:
            return
    raise AssertionError(f"more than {_MOST} writes")


@pytest.mark.parametrize("schedulers", [1, 2, 3])
def test_bursts_under_several_live_schedulers(schedulers: int) -> None:
    stage = Stage(nodes=3, gpus=4, seed=schedulers)
    for _ in range(schedulers):
        stage.scheduler()
    names = [f"p{i:02}" for i in range(26)]
    stage.pods(*names)
    stage.until(lambda: len(stage.placed()) == len(names), 60)
    stage.run(60)
    held = Counter(device for devices in stage.placed().values() for device in devices)
    assert sorted(held.values()) == [2] * 12
    assert stage.wrong() == []
    assert stage.plugin.refused == []


def test_who_wakes_after_his_claim_was_withdrawn_does_not_bind_on_it() -> None:
    """The other scheduler may not bind the pod: its queue has gone, and its room to others."""
    for at in range(_MOST):
        stage = Stage(gpus=1)
        stage.pods("a")

        def meanwhile(stage: Stage = stage) -> None:
            stage.store.patch(r.POD_GROUP, "a", {"spec": {"queue": "nowhere"}}, "default")
            stage.pods("x", "y")
            other, _ = stage.scheduler()
            stage.run(60, only=other)

        port = _Sleeper(stage.store, at, meanwhile)
        stage.scheduler(port)
        stage.run(30)
        if port.writes <= at:
            return
        assert stage.wrong() == [], at
        assert stage.placed().keys() in ({"x", "y"}, {"a", "x"}), (at, stage.placed())
    raise AssertionError(f"more than {_MOST} writes")

"""How a job uses its GPUs is not known before its node has told of them since it started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock, rfc3339
from kai_ray.cluster.port import Object
from kai_ray.gpu.use import GpuUse
from kai_ray.history.reader import HistoryReader
from tests.sight.worlds import World

START_S = 1_800_000_000.0


def state(at_s: float, *holders: str, part: float = 0.0) -> Object:
    """What a node with one GPU told at that time."""
    device = {"uuid": "GPU-0", "index": 0, "utilization": part, "usedMiB": 0}
    device |= {"pods": list(holders), "processes": []}
    return {
        "metadata": {"name": "node-0"},
        "status": {"observedAt": rfc3339(at_s), "devices": [device]},
    }


def pod(**status: object) -> Object:
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"uid": "u", "name": "p", "creationTimestamp": rfc3339(START_S - 900)},
        "spec": {"nodeName": "node-0", "containers": [container]},
        "status": status,
    }


STARTED = {"startTime": rfc3339(START_S)}
PLACED = {
    "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(START_S)}
    ]
}


@pytest.mark.parametrize("status", [STARTED, PLACED])
@pytest.mark.parametrize("after_s, known", [(-20, False), (0, False), (1, True), (25, True)])
def test_a_report_from_before_the_start_says_nothing_of_a_pod(
    status: Object, after_s: float, known: bool
) -> None:
    use = GpuUse.of([state(START_S + after_s)]).of_pod(pod(**status), START_S + 30)
    assert (use.held, use.known, use.used) == (1.0, float(known), 0.0)
    assert use.utilization == (0.0 if known else None)
    assert bool(use.problem) is not known


def test_a_report_that_names_the_pod_says_how_it_does() -> None:
    """Also one of the very second in which it started."""
    use = GpuUse.of([state(START_S, "u", part=0.5)]).of_pod(pod(**STARTED), START_S + 5)
    assert (use.known, use.utilization) == (1.0, 0.5)


def test_a_pod_of_which_nobody_says_when_it_started_is_as_old_as_its_object() -> None:
    assert GpuUse.of([state(START_S)]).of_pod(pod(), START_S).known == 1.0
    assert GpuUse.of([state(START_S)]).of_pod(pod(startTime="soon"), START_S).known == 1.0


class Telling:
    """A cluster whose node tells at a time and by a clock that the test chooses."""

    def __init__(self, w: World) -> None:
        self._w = w

    def __call__(self, by_its_clock_s: float) -> None:
        obj = state(by_its_clock_s)
        store = self._w.cluster.store
        if not store.list(R.GPU_NODE_STATE).items:
            store.create(R.GPU_NODE_STATE, {"metadata": obj["metadata"]})
        store.patch(R.GPU_NODE_STATE, "node-0", {"status": obj["status"]}, subresource="status")
        self._w.run(1)


@pytest.mark.parametrize("wrong_s", [-7200.0, 7200.0])
def test_an_agent_with_a_wrong_clock_is_understood(wrong_s: float) -> None:
    with World("1x1", clock=VirtualClock(START_S - 100)) as w:
        telling, began = Telling(w), pod(startTime=rfc3339(START_S))
        telling(w.now + wrong_s)
        telling(w.now + wrong_s)
        w.run(START_S - w.now + 10)
        assert w.sight.gpu.pods([began]).known == 0.0
        telling(w.now + wrong_s + 1)
        assert w.sight.gpu.pods([began]).known == 1.0


def test_the_history_knows_no_more_of_a_job_than_was_told(tmp_path: Path) -> None:
    with World(gpu_use_s=30, history=tmp_path / "history.sqlite") as w:
        w.queue("team", 4)
        w.run(35)
        w.job("busy", "team", pods=4, seconds=600, use="50%")
        shown: list[float | None] = []
        for _ in range(60):
            w.run(1)
            pods = w.cluster.store.list(R.POD, "default").items
            shown.append(w.sight.gpu.pods(pods).utilization)
        assert 0.0 not in shown and shown[0] is None and shown[-1] == pytest.approx(0.5)
        w.run(900)
        (row,) = HistoryReader(tmp_path / "history.sqlite").jobs()
        assert row.held_gpu_s == pytest.approx(2400, rel=0.02)
        assert 0.9 * row.held_gpu_s <= row.known_gpu_s <= row.held_gpu_s
        assert row.used_gpu_s / row.known_gpu_s == pytest.approx(0.5, abs=0.02)


def test_a_job_that_starts_between_two_looks_has_not_run_since_the_first(tmp_path: Path) -> None:
    with World(gpu_use_s=5, history=tmp_path / "history.sqlite") as w:
        w.queue("team", 4)
        w.run(60 - w.now % 60 + 40)
        w.job("short", "team", pods=4, seconds=25, use="50%")
        w.run(120)
        reader = HistoryReader(tmp_path / "history.sqlite")
        (row,) = reader.jobs()
        assert row.held_gpu_s == pytest.approx(100, rel=0.1)
        assert 0 < row.known_gpu_s <= row.held_gpu_s
        (spent,) = reader.spent(0.0, w.now)
        assert spent.known_gpu_s == pytest.approx(row.known_gpu_s)

"""Simulated GPUs tell of their use as an agent would: who holds them, how busy they are."""

from __future__ import annotations

import msgspec
import pytest

from kai_ray.api import labels as L
from kai_ray.api.gpu_state import GPUNodeState
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock, epoch
from kai_ray.cluster.port import NotFound, Object
from kai_ray.gpu.use import STALE_S
from kai_ray.sight.gpu import GpuSight
from kai_ray.sim.cluster_file import ClusterConfig, ClusterFileError
from kai_ray.sim.embedded import EmbeddedCluster
from kai_ray.sim.gpu_model import at, phases_of
from tests.sim.first_fit import FirstFit
from tests.sim.worlds import get, phase, pod


def _cluster(nodes: int = 2, period: float | None = 30, **pool: object) -> EmbeddedCluster:
    raw = {
        "nodePools": [{"name": "n", "count": nodes, "gpus": 4, **pool}],
        "gpuUse": {} if period is None else {"periodSeconds": period},
    }
    config = ClusterConfig.of(raw)
    return EmbeddedCluster(config, VirtualClock(), scheduling=False, extra=[FirstFit()])


def _state(c: EmbeddedCluster, node: str) -> Object:
    found = get(c, R.GPU_NODE_STATE, node, "")
    msgspec.convert(found, GPUNodeState)
    return found["status"]


def test_a_pod_is_seen_on_its_gpus_with_what_it_uses() -> None:
    with _cluster() as c:
        c.client.create(R.POD, pod("a", gpus=2, run_time="1h", gpu_use="80%"))
        assert c.run_until(lambda: phase(c, "a") == "Running", 5)
        c.run_for(35)
        status, uid = _state(c, "n-0"), get(c, R.POD, "a")["metadata"]["uid"]
        busy = [d for d in status["devices"] if d["pods"] == [uid]]
        assert [d["index"] for d in busy] == [0, 1]
        assert [d["utilization"] for d in status["devices"]] == [0.8, 0.8, 0.0, 0.0]
        assert busy[0]["processes"][0]["pod"] == "a" and busy[0]["usedMiB"] > 0
        assert status["source"] == "simulated"
        sight = GpuSight()
        sight.setup(c.runtime)
        use = sight.pods([get(c, R.POD, "a")])
        assert (use.held, use.known, use.utilization) == (2.0, 2.0, pytest.approx(0.8))
        columns = sight.columns()
        assert columns.utilization.tolist() == [0.8, 0.8, 0, 0, 0, 0, 0, 0]
        assert columns.fresh.all() and columns.nodes == ("n-0", "n-1")


def test_after_a_restart_pods_are_on_the_gpus_that_they_had(tmp_path) -> None:
    config = ClusterConfig.of(
        {"nodePools": [{"name": "n", "count": 1, "gpus": 4}], "gpuUse": {"periodSeconds": 30}}
    )
    for _ in range(2):
        with EmbeddedCluster(
            config, VirtualClock(), tmp_path, scheduling=False, extra=[FirstFit()]
        ) as c:
            if not c.client.list(R.POD).items:
                c.client.create(R.POD, pod("a", gpus=2, run_time="1h", gpu_use="80%"))
            c.run_for(60)
            assert [d["utilization"] for d in _state(c, "n-0")["devices"]] == [0.8, 0.8, 0.0, 0.0]


def test_what_a_pod_never_touches_counts_as_unused() -> None:
    with _cluster() as c:
        c.client.create(R.POD, pod("a", gpus=4, run_time="1h", gpu_use="0%"))
        c.run_for(65)
        sight = GpuSight()
        sight.setup(c.runtime)
        assert sight.pods([get(c, R.POD, "a")]).utilization == 0.0


def test_a_quiet_node_writes_rarely_and_a_change_is_told_within_a_period() -> None:
    with _cluster(nodes=1) as c:
        c.run_for(1)
        first = get(c, R.GPU_NODE_STATE, "n-0", "")["metadata"]["resourceVersion"]
        seen = set()
        for _ in range(20):
            c.run_for(30)
            seen.add(get(c, R.GPU_NODE_STATE, "n-0", "")["metadata"]["resourceVersion"])
        assert len(seen - {first}) <= 6  # ten minutes, a heartbeat every two
        c.client.create(R.POD, pod("a", gpus=1, run_time="1h", gpu_use="50%"))
        c.run_for(31)
        assert _state(c, "n-0")["devices"][0]["utilization"] == 0.5


def test_a_broken_gpu_and_a_node_that_is_down_are_told_as_such() -> None:
    with _cluster(nodes=1, gpusPerNuma=2, gpusPerLink=4) as c:
        c.client.patch(R.NODE, "n-0", {"metadata": {"annotations": {L.SIM_BAD_GPUS: "3"}}})
        c.run_for(35)
        devices = _state(c, "n-0")["devices"]
        assert [d["healthy"] for d in devices] == [True, True, True, False]
        assert "XID 79" in devices[3]["problem"] and "utilization" not in devices[3]
        assert [d["numaNode"] for d in devices] == [0, 0, 1, 1]
        assert devices[1]["links"] == [0, 2, 3]
        c.client.patch(R.NODE, "n-0", {"metadata": {"annotations": {L.SIM_DOWN: "true"}}})
        c.run_for(STALE_S + 200)
        sight = GpuSight()
        sight.setup(c.runtime)
        assert sight.problem("n-0").startswith("no GPU data from node n-0 since 20")
        assert not sight.columns().fresh.any()
        assert epoch(_state(c, "n-0")["observedAt"]) < c.clock.now() - STALE_S


def test_virtual_time_tells_nothing_unless_it_is_asked_to() -> None:
    with _cluster(period=None) as c:
        c.run_for(600)
        with pytest.raises(NotFound):
            c.client.get(R.GPU_NODE_STATE, "n-0")


@pytest.mark.parametrize(
    ("text", "passed", "level"),
    [("90%", 5, 0.9), ("90% for 10m, 0%", 599, 0.9), ("90% for 10m, 0%", 600, 0.0)],
)
def test_phases(text: str, passed: float, level: float) -> None:
    assert at(phases_of(text), passed) == level


@pytest.mark.parametrize("text", ["90", "120%", "10% for ever", ""])
def test_phases_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError):
        phases_of(text)


def test_a_period_that_makes_no_sense_is_named() -> None:
    raw = {"nodePools": [{"name": "n", "count": 1}], "gpuUse": {"periodSeconds": 0.1}}
    with pytest.raises(ClusterFileError, match=r"gpuUse\.periodSeconds"):
        ClusterConfig.of(raw)

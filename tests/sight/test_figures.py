"""Figures of queues, nodes and cycles against what the objects of the cluster say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kai_ray.cluster import resources as R
from kai_ray.scheduler.snapshot import GPU
from kai_ray.sight.sight import Sight
from tests.sight.worlds import World


def held_on_nodes(w: World) -> Counter[str]:
    """GPUs of live pods by node, read from the pods themselves."""
    found: Counter[str] = Counter()
    for pod in w.cluster.store.list(R.POD).items:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        found[pod["spec"].get("nodeName", "")] += int(limits.get("nvidia.com/gpu", 0))
    del found[""]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_figures_agree_with_the_objects_at_any_time(seed: int) -> None:
    draw = np.random.default_rng(seed)
    with World("3x4") as w:
        for name in ("a", "b"):
            w.queue(name, 6)
        for number in range(14):
            pods, seconds = int(draw.integers(1, 5)), int(draw.integers(20, 200))
            w.job(f"job-{number}", str(draw.choice(["a", "b"])), pods=pods, seconds=seconds)
            w.run(float(draw.integers(1, 40)))
            nodes, queues = w.sight.nodes, w.sight.queues
            held = held_on_nodes(w)
            assert dict(zip(nodes.names, nodes.allocated.tolist(), strict=True)) == {
                name: float(held[name]) for name in nodes.names
            }
            assert nodes.gpus.tolist() == [4.0] * 3
            assert (nodes.free + nodes.allocated == nodes.gpus).all()
            # Nothing is about to leave in this story, so queues hold what is held on nodes.
            top = [row for row, parent in enumerate(queues.parent) if not parent]
            assert queues.allocated[GPU, top].sum() == sum(held.values())
            assert nodes.holding_gpus.sum() == sum(held.values())
            assert sum(queues.reasons.values()) == queues.waiting[top].sum()
            statuses = {
                q["metadata"]["name"]: q.get("status") or {}
                for q in w.cluster.store.list(R.QUEUE).items
            }
            assert set(queues.names) == set(statuses)


def test_queues_below_count_into_the_queue_above() -> None:
    with World("1x8") as w:
        w.queue("org", 8)
        w.queue("team", 4, parentQueue="org")
        w.job("one", "team", pods=3, seconds=100)
        w.run(10)
        queues = w.sight.queues
        team, org = queues.row_of["team"], queues.row_of["org"]
        assert queues.parent[team] == "org" and queues.parent[org] == ""
        assert (queues.leaf[team], queues.leaf[org]) == (True, False)
        assert queues.allocated[GPU, [team, org]].tolist() == [3.0, 3.0]
        assert queues.quota[GPU, team] == 4.0 and queues.limit[GPU, team] == -1.0


def test_a_node_tells_whether_it_takes_work_and_who_holds_it() -> None:
    with World("2x4") as w:
        w.queue("team", 8)
        w.job("one", "team", pods=1, gpus=2, seconds=100)
        w.run(5)
        w.cluster.store.patch(R.NODE, "node-1", {"spec": {"unschedulable": True}})
        w.run(5)
        nodes = w.sight.nodes
        assert nodes.state[nodes.row_of["node-1"]] == "Ready,Cordoned"
        (row,) = nodes.holding_node.tolist()
        assert nodes.holding_queue == ["team"] and nodes.holding_gpus.tolist() == [2.0]
        assert nodes.allocated[row] == 2.0 and nodes.pods[row] == 1


def test_a_part_of_a_gpu_counts_as_a_part_and_its_card_as_shared() -> None:
    with World("1x2") as w:
        w.queue("team", 2)
        made = w.job("part", "team", gpus=0, seconds=100)
        w.cluster.store.delete(R.JOB, "part", "default")
        template = made["spec"]["template"]
        template["metadata"]["annotations"] = {"gpu-fraction": "0.25"}
        pod = {
            "metadata": {**template["metadata"], "name": "quarter", "namespace": "default"},
            "spec": template["spec"],
        }
        w.cluster.store.create(R.POD, pod)
        w.run(10)
        nodes = w.sight.nodes
        assert (nodes.allocated[0], nodes.shared[0]) == (0.25, 1)


def test_cycles_are_timed_and_counted() -> None:
    with World("1x4") as w:
        w.queue("team", 4)
        before = w.sight.version
        w.job("one", "team", pods=2, seconds=20)
        w.run(60)
        assert w.sight.version > before
        cycle = w.sight.cycle
        assert cycle is not None and set(cycle.seconds) == {"snapshot", "decide", "bind", "evict"}
        assert all(seconds >= 0 for seconds in cycle.seconds.values())
        totals = w.sight.totals
        assert (totals.bound, totals.started) == (2, 1)
        assert totals.cycles == len(w.sight.cycles) <= 256
        assert sum(c.bound for c in w.sight.cycles) == 2
        (decision,) = w.sight.decisions.last()
        (placed,) = decision.bound
        assert (placed.job, placed.queue, placed.pods, placed.gpus) == (
            "Job default/one",
            "team",
            2,
            2.0,
        )
        assert w.sight.decisions.get(decision.id) is decision


def test_before_the_first_cycle_there_is_nothing_to_see() -> None:
    sight = Sight()
    assert sight.queues.names == [] and sight.nodes.names == []
    assert sight.queues.allocated.shape == (3, 0)
    assert sight.cycle is None and sight.decisions.last() == []


def test_figures_cost_the_loop_nothing_until_somebody_asks() -> None:
    with World("1x4") as w:
        w.queue("team", 4)
        w.run(5)
        first = w.sight.nodes
        assert w.sight.nodes is first  # no cycle since
        w.job("one", "team", seconds=20)
        w.run(5)
        assert w.sight.nodes is not first

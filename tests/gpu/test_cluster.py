"""Shared cards on a whole cluster: annotations in, groups on pods, parts on nodes' own books."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import ApiError, Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from kai_ray.sim.kubelet import held_devices
from tests.sim.worlds import get, phase, pod


def cluster(nodes: int = 1, gpus: int = 8, state_dir: Any = None) -> EmbeddedCluster:
    pool = {"name": "n", "count": nodes, "gpus": gpus, "gpuMemory": "80Gi"}
    raw = {"nodePools": [pool], "seed": 1}
    return EmbeddedCluster(ClusterConfig.of(raw), VirtualClock(), state_dir)


def shares(name: str, **annotations: str) -> Object:
    made = pod(name, run_time="1h")
    words = {k.replace("_", "-"): v for k, v in annotations.items()}
    made["metadata"]["annotations"] |= words
    return made


def running(c: EmbeddedCluster, names: list[str]) -> bool:
    return c.run_until(lambda: all(phase(c, name) == "Running" for name in names), 60)


def cards(c: EmbeddedCluster, names: list[str]) -> Counter[tuple[str, int]]:
    """Pods per device, by the nodes' own account."""
    found: Counter[tuple[str, int]] = Counter()
    for name in names:
        placed = get(c, R.POD, name)
        found.update((placed["spec"]["nodeName"], i) for i in held_devices(placed))
    return found


def test_two_halves_share_a_card_and_say_so() -> None:
    with cluster() as c:
        for name in ("a", "b"):
            c.client.create(R.POD, shares(name, gpu_fraction="0.5"))
        assert running(c, ["a", "b"])
        found = [get(c, R.POD, name)["metadata"] for name in ("a", "b")]
        assert len({meta["labels"][L.GPU_GROUP] for meta in found}) == 1
        assert {meta["annotations"][L.RECEIVED_TYPE] for meta in found} == {"Fraction"}
        assert {meta["annotations"][L.GPU_PORTION] for meta in found} == {"0.50"}
        assert list(cards(c, ["a", "b"]).values()) == [2]


def test_the_container_is_told_its_devices_through_a_config_map_of_the_pod() -> None:
    with cluster() as c:
        c.client.create(R.POD, shares("a", gpu_fraction="0.5"))
        assert running(c, ["a"])
        made = get(c, R.POD, "a")
        (container,) = made["spec"]["containers"]
        referred = {e["name"]: e["valueFrom"]["configMapKeyRef"] for e in container["env"]}
        name = made["metadata"]["annotations"][L.SHARED_GPU_CONFIG] + "-0"
        assert {ref["name"] for ref in referred.values()} == {name}
        told = get(c, R.CONFIG_MAP, name)
        (device,) = held_devices(made)
        assert told["data"] == {
            "NVIDIA_VISIBLE_DEVICES": f"GPU-n-0-{device}",
            "GPU_PORTION": "0.50",
            "RUNAI_NUM_OF_GPUS": "0.50",
        }
        assert told["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        needed = {key for key, ref in referred.items() if not ref.get("optional")}
        assert needed == set(told["data"])


def test_books_of_groups_and_queues_show_parts() -> None:
    with cluster() as c:
        for name in ("a", "b", "c"):
            c.client.create(R.POD, shares(name, gpu_fraction="0.25"))
        assert running(c, ["a", "b", "c"])
        c.run_for(5)
        groups = [
            g["status"]["resourcesStatus"] for g in c.client.list(R.POD_GROUP, "default").items
        ]
        assert [g["allocated"][L.NVIDIA_GPU] for g in groups] == ["0.25"] * 3
        (queue,) = [
            q for q in c.client.list(R.QUEUE).items if q["metadata"]["name"] == "default-queue"
        ]
        assert queue["status"]["allocated"][L.NVIDIA_GPU] == "0.75"


def test_sixteen_halves_at_once_on_eight_cards() -> None:
    names = [f"p{i:02}" for i in range(17)]
    with cluster() as c:
        for name in names:
            c.client.create(R.POD, shares(name, gpu_fraction="0.5"))
        c.run_for(30)
        placed = [name for name in names if phase(c, name) == "Running"]
        assert len(placed) == 16
        assert sorted(cards(c, placed).values()) == [2] * 8


def test_a_share_comes_and_goes_and_whole_gpus_find_what_is_left() -> None:
    with cluster(gpus=2) as c:
        c.client.create(R.POD, shares("a", gpu_fraction="0.5"))
        assert running(c, ["a"])
        c.client.create(R.POD, pod("both", gpus=2, run_time="1h"))
        c.client.create(R.POD, pod("one", gpus=1, run_time="1h"))
        assert running(c, ["one"])
        assert phase(c, "both") == "Pending"
        assert len(cards(c, ["a", "one"])) == 2
        for name in ("a", "one"):
            c.client.delete(R.POD, name, "default")
        assert running(c, ["both"])


def test_memory_and_several_devices() -> None:
    with cluster(gpus=3) as c:
        c.client.create(R.POD, shares("m", gpu_memory="60000"))
        assert running(c, ["m"])
        c.client.create(R.POD, shares("two", gpu_fraction="0.6", gpu_fraction_num_devices="2"))
        assert running(c, ["two"])
        labels = get(c, R.POD, "two")["metadata"]["labels"]
        groups = {v for k, v in labels.items() if k.startswith(L.GPU_GROUP + "/")}
        assert len(groups) == 2
        assert max(cards(c, ["m", "two"]).values()) == 1
        c.client.create(R.POD, shares("more", gpu_memory="20000"))
        assert running(c, ["more"])  # beside m or two, no card is free


def test_a_restarted_cluster_still_knows_who_shares(tmp_path: Any) -> None:
    with cluster(gpus=1, state_dir=tmp_path) as c:
        c.client.create(R.POD, shares("a", gpu_fraction="0.5"))
        assert running(c, ["a"])
    with cluster(gpus=1, state_dir=tmp_path) as c:
        c.client.create(R.POD, shares("b", gpu_fraction="0.5"))
        c.client.create(R.POD, shares("c", gpu_fraction="0.5"))
        assert running(c, ["b"])
        assert list(cards(c, ["a", "b"]).values()) == [2]
        c.run_for(20)
        assert phase(c, "c") == "Pending"


@pytest.mark.parametrize(
    ("annotations", "gpus", "field"),
    [
        ({"gpu_fraction": "0"}, 0, "gpu-fraction"),
        ({"gpu_fraction": "1.5"}, 0, "gpu-fraction"),
        ({"gpu_fraction": "NaN"}, 0, "gpu-fraction"),
        ({"gpu_fraction": "half"}, 0, "gpu-fraction"),
        ({"gpu_fraction": "0.5"}, 1, "gpu-fraction"),
        ({"gpu_memory": "0"}, 0, "gpu-memory"),
        ({"gpu_memory": "-5"}, 0, "gpu-memory"),
        ({"gpu_memory": "8Gi"}, 0, "gpu-memory"),
        ({"gpu_memory": "8000"}, 2, "gpu-memory"),
        ({"gpu_memory": "8000", "gpu_fraction": "0.5"}, 0, "gpu-memory"),
        ({"gpu_fraction_num_devices": "2"}, 0, "gpu-fraction-num-devices"),
        ({"gpu_fraction": "0.5", "gpu_fraction_num_devices": "0"}, 0, "gpu-fraction-num-devices"),
        ({"gpu_fraction": "0.5", "gpu_fraction_num_devices": "9e9"}, 0, "gpu-fraction-num-devices"),
        ({"mps": "true"}, 0, "mps"),
        (
            {"gpu_fraction": "0.5", "gpu_fraction_container_name": "nobody"},
            0,
            "gpu-fraction-container-name",
        ),
    ],
)
def test_shares_that_cannot_be_are_refused_at_the_door(
    annotations: dict[str, str], gpus: int, field: str
) -> None:
    with cluster() as c:
        bad = shares("p", **annotations)
        if gpus:
            bad["spec"]["containers"][0]["resources"] = {"limits": {L.NVIDIA_GPU: str(gpus)}}
        with pytest.raises(ApiError, match=f"annotations.{field}"):
            c.client.create(R.POD, bad)


def test_memory_above_every_card_waits_and_says_why() -> None:
    with cluster() as c:
        c.client.create(R.POD, shares("p", gpu_memory="90000"))
        c.run_for(10)
        assert phase(c, "p") == "Pending"
        groups = c.client.list(R.POD_GROUP, "default").items
        text = str([g.get("status") for g in groups])
        assert "less memory than asked" in text

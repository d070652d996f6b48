"""What a container that shares GPUs is told, and what keeps it to its part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_ray.admission import gpu_env
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object
from kai_ray.gpu import environment, isolation
from tests.gpu.stage import Stage
from tests.sim.worlds import pod


def _wired(**notes: str) -> Object:
    made = pod("p")
    made["metadata"] = {
        "name": "p",
        "annotations": {k.replace("_", "-"): v for k, v in notes.items()},
    }
    made["spec"]["initContainers"] = [{"name": "early", "image": "i"}]
    made["spec"]["containers"].append({"name": "second", "image": "i"})
    gpu_env.add(made)
    return made


def _env(made: Object, group: str, at: int) -> dict[str, Any]:
    return {e["name"]: e for e in made["spec"][group][at].get("env") or ()}


@pytest.mark.parametrize(
    ("container", "group", "at", "suffix"),
    [
        ("", "containers", 0, "0"),
        ("second", "containers", 1, "1"),
        ("early", "initContainers", 0, "i0"),
    ],
)
def test_the_named_container_is_wired_and_no_other(
    container: str, group: str, at: int, suffix: str
) -> None:
    named = {"gpu_fraction_container_name": container} if container else {}
    made = _wired(gpu_fraction="0.5", **named)
    prefix = made["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    assert prefix.startswith("p-") and prefix.endswith("-shared-gpu")
    env = _env(made, group, at)
    assert env.keys() == {*environment.ALWAYS, *isolation.LIMITS}
    refs = {e["valueFrom"]["configMapKeyRef"]["name"] for e in env.values()}
    assert refs == {f"{prefix}-{suffix}"}
    others = made["spec"]["containers"] + made["spec"]["initContainers"]
    assert sum(bool(c.get("env")) for c in others) == 1


def test_what_a_container_sets_itself_stays() -> None:
    made = pod("p")
    made["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    mine = {"name": "GPU_PORTION", "value": "mine"}
    made["spec"]["containers"][0]["env"] = [mine]
    gpu_env.add(made)
    env = made["spec"]["containers"][0]["env"]
    assert [e for e in env if e["name"] == "GPU_PORTION"] == [mine]


def test_whole_gpus_are_left_alone() -> None:
    made = pod("p", gpus=1)
    gpu_env.add(made)
    assert "env" not in made["spec"]["containers"][0]


def test_two_pods_without_a_name_have_maps_of_their_own() -> None:
    prefixes = set()
    for _ in range(20):
        made = pod("p")
        made["metadata"] = {"generateName": "p-", "annotations": {"gpu-fraction": "0.5"}}
        gpu_env.add(made)
        prefixes.add(made["metadata"]["annotations"]["runai/shared-gpu-configmap"])
    assert len(prefixes) == 20


@pytest.mark.parametrize(
    ("labels", "annotations", "found"),
    [
        ({}, {}, "none"),
        ({"nvidia.com/mps.capable": "true"}, {}, "mps"),
        ({"nvidia.com/gpu.sharing-strategy": "mps"}, {}, "mps"),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, {}, "none"),
        ({}, {"hami.io/node-nvidia-register": "[]"}, "hami"),
        ({"kai.scheduler/gpu-isolation": "hami", "nvidia.com/mps.capable": "true"}, {}, "hami"),
        ({"kai.scheduler/gpu-isolation": "none", "nvidia.com/mps.capable": "true"}, {}, "none"),
    ],
)
def test_a_node_says_what_isolates(labels: Object, annotations: Object, found: str) -> None:
    assert isolation.of_node({"metadata": {"labels": labels, "annotations": annotations}}) == found


def test_limits_are_in_the_words_of_what_reads_them() -> None:
    assert isolation.limits("hami", 40_000, 0.5, 1) == {"CUDA_DEVICE_MEMORY_LIMIT": "40000m"}
    assert isolation.limits("mps", 20_000, 0.25, 2) == {
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20000M,1=20000M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
    }
    assert isolation.limits("mps", 0, 0.001, 1) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "1"}
    assert isolation.limits("hami", 0, 0.5, 1) == {}
    assert isolation.limits("none", 40_000, 0.5, 1) == {}


def _bound(stage: Stage, labels: dict[str, str], wired: str) -> Object:
    """One pod on a node with these labels, wired by this admission."""
    stage.store.patch(r.NODE, "node-0", {"metadata": {"labels": labels}})
    stage.scheduler()
    made = stage.store.create(r.POD_GROUP, _group("p"))
    made = pod("p")
    made["metadata"] |= {"annotations": {"gpu-fraction": "0.5", "pod-group-name": "p"}}
    made["spec"]["schedulerName"] = "kai-scheduler"
    if wired == "ours":
        gpu_env.add(made)
    elif wired == "kai":  # with the map that a container takes whole
        made["metadata"]["annotations"]["runai/shared-gpu-configmap"] = "x"
        container = made["spec"]["containers"][0]
        container["envFrom"] = [{"configMapRef": {"name": "x-0-evar", "optional": False}}]
    elif wired == "policy":
        made["spec"]["containers"][0]["env"] = environment.by_annotations()
    stage.store.create(r.POD, made)
    assert stage.until(lambda: "p" in stage.placed())
    return stage.store.get(r.POD, "p", "default")


def _group(name: str) -> Object:
    from tests.control import objects

    return objects.podgroup(name, "default-queue")


@pytest.mark.parametrize("wired", ["ours", "kai", "policy", "by hand"])
@pytest.mark.parametrize(
    ("isolates", "limits"),
    [
        ("hami", {"CUDA_DEVICE_MEMORY_LIMIT": "40000m"}),
        (
            "mps",
            {
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=40000M",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            },
        ),
        ("none", {}),
    ],
)
def test_limits_reach_the_container_or_it_is_said_that_they_do_not(
    wired: str, isolates: str, limits: dict[str, str]
) -> None:
    stage = Stage(gpus=1)
    made = _bound(stage, {"kai.scheduler/gpu-isolation": isolates}, wired)
    data = [
        m["data"]
        for m in stage.store.list(r.CONFIG_MAP, "default").items
        if "-" in m["metadata"]["name"]
    ]
    told = {k: v for found in data for k, v in found.items() if k in isolation.LIMITS}
    reached = wired in ("ours", "kai") and isolates != "none"
    assert told == (limits if reached else {})
    assert made["metadata"]["annotations"]["kai.scheduler/gpu-isolation"] == (
        isolates if reached else "none"
    )
    stage.run(1)
    assert ("SharedWithoutIsolation" in stage.events("p")) == (not reached)
    visible = {k: v for found in data for k, v in found.items() if k == "NVIDIA_VISIBLE_DEVICES"}
    if wired in ("ours", "kai"):
        assert visible == {"NVIDIA_VISIBLE_DEVICES": "GPU-node-0-0"}
    assert made["metadata"]["annotations"]["kai.scheduler/gpu-devices"] == "GPU-node-0-0"


def test_a_map_that_belongs_to_another_pod_is_not_overwritten() -> None:
    stage = Stage(gpus=1)
    other = stage.pod("other", node="node-0", scheduler="another")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": other["metadata"]["uid"]}
    theirs = {"metadata": {"name": "x-0", "namespace": "default", "ownerReferences": [owner]}}
    stage.store.create(r.CONFIG_MAP, {**theirs, "data": {"mine": "1"}})
    stage.scheduler()
    stage.pod("p", "0.5", notes={"runai/shared_gpu_configmap": "x"})
    stage.run(5)
    assert "p" not in stage.placed()
    assert "belongs to pod other" in json.dumps(stage.events("p"))
    assert stage.store.get(r.CONFIG_MAP, "x-0", "default")["data"] == {"mine": "1"}

"""Idle jobs of Ray, Kubeflow and others: each leaves by what its operator obeys, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from kai_ray.cluster.suspension import is_suspended
from kai_ray.sdk.finding import find
from kai_ray.sdk.switching import switch
from tests.idle.worlds import World, world

RULE = "below 5% for 10m, suspend after 5m, enforce"
EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"


def _submit(w: World, file: str, **spec: Any) -> Object:
    """The example's workload, the last of its objects, idle from the start."""
    *others, manifest = yaml.safe_load_all((EXAMPLES / file).read_text())
    for other in others:
        kind = kinds.BY_KIND[other["apiVersion"], other["kind"]]
        if kind.namespaced:
            other["metadata"]["namespace"] = "default"
        w.port.create(kind, other)
    meta = manifest["metadata"]
    meta["namespace"] = "default"
    meta.setdefault("labels", {})[L.QUEUE] = "team"
    notes = {L.SIM_GPU_USE: "0%", L.RUN_TIME: "1000h"}
    meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    manifest["spec"] |= spec
    return w.port.create(kinds.BY_KIND[manifest["apiVersion"], manifest["kind"]], manifest)


def _gpus(w: World) -> int:
    """GPUs of all pods that run."""
    return sum(
        int((c.get("resources") or {}).get("limits", {}).get(L.NVIDIA_GPU, 0))
        for p in w.port.list(kinds.POD, "default").items
        if (p.get("status") or {}).get("phase") == "Running"
        and not p["metadata"].get("deletionTimestamp")
        for c in p["spec"]["containers"]
    )


@pytest.mark.parametrize(
    "file", ["pytorchjob.yaml", "mpijob.yaml", "raycluster.yaml", "rayjob.yaml", "trainjob.yaml"]
)
def test_a_kind_is_suspended_and_resumed(file: str) -> None:
    with world(nodes=4) as w:
        w.queue("team", RULE)
        job = _submit(w, file)
        w.run(8)
        held = _gpus(w)
        assert held > 0
        w.run(12)
        assert _gpus(w) == 0, w.told
        assert [reason for reason, _ in w.told] == ["IdleWarning", "IdleSuspended"]
        w.run(30)
        assert _gpus(w) == 0, "it stays so"
        found = find(w.port, "default", f"{job['kind']}/{job['metadata']['name']}")
        assert is_suspended(found.resource, found.object)
        assert switch(w.port, found, False)
        w.run(4)
        assert _gpus(w) == held


def test_a_rayjob_that_kuberay_would_fail_waits_by_annotation_and_loses_no_try() -> None:
    with world(nodes=4) as w:
        w.queue("team", RULE)
        name = _submit(w, "rayjob.yaml", shutdownAfterJobFinishes=False)["metadata"]["name"]
        w.run(25)
        job = w.port.get(kinds.RAY_JOB, name, "default")
        assert _gpus(w) == 0 and not job["spec"].get("suspend")
        assert job["metadata"]["annotations"][L.SUSPENDED] == "true"
        assert (job["status"].get("failed") or 0) == 0
        assert switch(w.port, find(w.port, "default", name), False)
        w.run(5)
        assert _gpus(w) > 0


def _group_of_two(busy: list[str]) -> Object:
    """A LeaderWorkerSet whose two groups are gangs of their own."""
    container = {"name": "c", "image": "x", "resources": {"limits": {L.NVIDIA_GPU: 2}}}
    template = {
        "metadata": {"labels": {L.QUEUE: "team"}, "annotations": {L.SIM_GPU_USE: busy[0]}},
        "spec": {"containers": [container]},
    }
    return {
        "metadata": {"name": "serve", "namespace": "default", "labels": {L.QUEUE: "team"}},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    }


def test_a_workload_of_several_gangs_goes_only_when_all_of_them_are_idle() -> None:
    with world(nodes=2) as w:
        w.queue("team", RULE)
        w.port.create(kinds.LEADER_WORKER_SET, _group_of_two(["0%"]))
        w.run(2)
        first, second = sorted(
            (p for p in w.port.list(kinds.POD, "default").items),
            key=lambda p: p["metadata"]["name"],
        )
        w.annotate(kinds.POD, second["metadata"]["name"], {L.SIM_GPU_USE: "90%"})
        w.run(20)
        assert _gpus(w) == 4
        assert w.told[-1][0] == "IdlePostponed" and "is not idle" in w.told[-1][1]
        w.annotate(kinds.POD, second["metadata"]["name"], {L.SIM_GPU_USE: "0%"})
        w.run(20)
        assert _gpus(w) == 0
        assert first["metadata"]["uid"]

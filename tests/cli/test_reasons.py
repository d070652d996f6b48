"""What users read about giving way, sharing and staying together; and what bad input is told."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import EXAMPLES, Kai

HOUR = "3600s"


class Told:
    """A cluster in virtual time, and the command line pointed at it."""

    def __init__(self, world: EmbeddedCluster, kai: Kai) -> None:
        self.world, self.kai = world, kai

    def submit(self, *objects: Any) -> str:
        text = "---\n".join(json.dumps(o) + "\n" for o in objects)
        out = self.kai.ok("submit", "-", stdin=text)
        self.world.run_for(1.0)
        return out

    def __call__(self, *args: str) -> str:
        return self.kai.ok(*args)


@pytest.fixture
def told(tmp_path: Any) -> Iterator[Told]:
    config = ClusterConfig.load(EXAMPLES / "cluster.yaml")
    with (
        EmbeddedCluster(config, VirtualClock(time.time())) as world,
        RestServer(world.store) as server,
    ):
        kai = Kai(server.write_kubeconfig(tmp_path / "config"))
        kai.ok("submit", str(EXAMPLES / "queues.yaml"))
        world.run_for(1.0)
        yield Told(world, kai)


def job(
    name: str,
    queue: str,
    pods: int,
    gpus: int,
    *,
    template: Any = None,
    node: str = "",
    **more: Any,
) -> Any:
    labels = {"kai.scheduler/queue": queue, **more.pop("labels", {})}
    notes = {
        "kai.scheduler/sim-run-time": HOUR,
        "kai.scheduler/batch-min-member": str(pods),
        **more.pop("annotations", {}),
    }
    asked = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "m", "image": "x", "resources": asked}
    spec: Any = {"restartPolicy": "Never", "containers": [container]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {"annotations": template}, "spec": spec},
        },
    }


def queue(name: str, gpu: Any = None, annotations: Any = None, **spec: Any) -> Any:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = gpu or {"quota": 1, "limit": -1, "overQuotaWeight": 1}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"resources": {"gpu": gpu, "cpu": free, "memory": free}, **spec},
    }


def pod(limits: Any = None, **annotations: str) -> Any:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    container = {"name": "m", "image": "x", "resources": {"limits": limits or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"kai.scheduler/queue": "vision"},
            "annotations": notes,
        },
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
    }


def topology(name: str, *levels: str) -> Any:
    rows = [{"nodeLabel": label} for label in levels]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": rows},
    }


def group(**spec: Any) -> Any:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"queue": "vision", "minMember": 1, **spec},
    }


RACK, ZONE = "cloud.provider.com/topology-rack", "topology.kubernetes.io/zone"


def test_both_sides_of_a_reclaim_are_told(told: Told) -> None:
    told.submit(job("lent", "vision", 4, 8))
    told.submit(job("own", "search", 1, 8))
    assert "WaitingForVictims" in told("get", "jobs", "own")
    said = told("explain", "own")
    assert "victims   waits for pods of Job lent (Reclaimed) to leave" in said
    assert "kept for it until" in said
    assert "Room is kept" in told("describe", "job", "own")
    told.world.run_for(10)
    row = told("get", "jobs", "lent")
    assert "Evicted" in row and "Reclaimed" in row
    said = told("explain", "lent")
    assert "evicted   Evicted for Job own of queue search" in said
    assert "Gave way:" in told("describe", "job", "lent")
    document = json.loads(told("get", "jobs", "lent", "-o", "json"))
    assert document["evicted"]["rule"] == "Reclaimed"


def test_a_suspended_job_says_that_it_is_and_not_that_pods_are_missing(told: Told) -> None:
    told.submit(job("held", "vision", 2, 8))
    told("job", "suspend", "held")
    told.world.run_for(40)
    text = told("explain", "held")
    assert "suspended: kai job resume held" in text
    assert "GangIncomplete" not in text and "exists yet" not in text
    told("job", "resume", "held")
    told.world.run_for(5)
    assert "2 pods have a place" in told("explain", "held")


def test_who_has_ended_holds_and_wants_no_gpus(told: Told) -> None:
    told.submit(job("brief", "vision", 2, 8, annotations={"kai.scheduler/sim-run-time": "1s"}))
    assert re.search(r"brief +vision +Job +16 ", told("get", "jobs"))
    told.world.run_for(10)
    assert re.search(r"brief +vision +Job +- +0/2 +Succeeded", told("get", "jobs"))


def test_minimum_runtime_says_until_when(told: Told) -> None:
    told.submit(
        queue("lender", {"quota": 0, "limit": -1, "overQuotaWeight": 1}, reclaimMinRuntime="1h")
    )
    told.submit(job("kept", "lender", 4, 8))
    told.submit(job("own", "search", 1, 8))
    said = told("explain", "own")
    assert "protected 1 gang may not be evicted for it yet (minimum runtime)" in said
    assert re.search(r"Min runtime, reclaim: +1h", told("describe", "queue", "lender"))
    told.world.run_for(3700)
    assert "Running" in told("get", "jobs", "own")


def test_a_preemption_delay_says_how_long(told: Told) -> None:
    told.submit(job("lent", "vision", 4, 8))
    notes = {"kai.scheduler/preemption-delay": "10m"}
    told.submit(job("own", "search", 1, 8, annotations=notes))
    assert "preemption delay" in told("explain", "own")


def test_a_rack_that_lacks_room_is_named(told: Told) -> None:
    told.submit(topology("racks", ZONE, RACK))
    told.submit(*(job(f"on-{n}", "vision", 1, 8, node=n) for n in ("gpu-0", "gpu-2")))
    notes = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": RACK}
    told.submit(job("tight", "vision", 2, 8, annotations=notes))
    said = told("explain", "tight")
    assert f"one domain of {RACK} with room for 2 pods" in said
    assert "nearest: zone-0.rack-" in said
    assert "TopologyUnsatisfied" in said
    assert f"one {RACK} (Topology racks)" in told("describe", "job", "tight")


def test_shared_cards_and_quarantine_are_shown(told: Told) -> None:
    told.submit(job("halves", "vision", 2, 0, template={"gpu-fraction": "0.5"}))
    row = next(line for line in told("get", "nodes").splitlines() if "by 2 pods" in line)
    node = row.split()[0]
    assert "100%" in told("describe", "node", node)
    assert "CARD" in told("describe", "job", "halves")
    from kai_ray.api import labels as L
    from kai_ray.cluster import resources as R

    notes = {L.QUARANTINED_UNTIL: "2099-01-01T00:00:00Z", L.QUARANTINE_REASON: "a dead device"}
    told.world.store.patch(R.NODE, node, {"metadata": {"annotations": notes}})
    assert "Quarantined" in told("get", "nodes", node)
    assert "until 2099-01-01T00:00:00Z: a dead device" in told("describe", "node", node)


def test_queues_say_what_they_lend_and_that_they_are_drained(told: Told) -> None:
    told.submit(job("lent", "vision", 4, 8))
    (row,) = told("get", "queues", "vision").splitlines()[1:]
    assert row.split()[2:6] == ["8", "32", "32", "24"], "quota, allocated, fair share, borrowed"
    told("queue", "drain", "vision", "--deadline", "1h")
    assert "Draining" in told("get", "queues", "vision")
    assert "is evicted" in told("describe", "queue", "vision")
    told("queue", "resume", "vision")
    assert "Active" in told("get", "queues", "vision")


#: What is refused when it is submitted: the object, the field that is named, and the mend.
REFUSED: dict[str, tuple[Any, str, str]] = {
    "a fraction of 0": (pod(gpu_fraction="0"), "[gpu-fraction]", "between 0 and 1"),
    "a fraction of 1.5": (pod(gpu_fraction="1.5"), "[gpu-fraction]", "between 0 and 1"),
    "a fraction of NaN": (pod(gpu_fraction="NaN"), "[gpu-fraction]", "between 0 and 1"),
    "a fraction with whole GPUs": (
        pod({"nvidia.com/gpu": "1"}, gpu_fraction="0.5"),
        "[gpu-fraction]",
        "a share or for whole devices",
    ),
    "both kinds of share": (pod(gpu_fraction="0.5", gpu_memory="9"), "[gpu-memory]", "not both"),
    "no memory": (pod(gpu_memory="0"), "[gpu-memory]", "whole MiB"),
    "no devices": (
        pod(gpu_fraction="0.5", gpu_fraction_num_devices="0"),
        "[gpu-fraction-num-devices]",
        "write 1 to",
    ),
    "a minimum runtime of -1s": (
        queue("q", preemptMinRuntime="-1s"),
        "spec.preemptMinRuntime",
        "0s or more",
    ),
    "a reclaim runtime in words": (
        queue("q", reclaimMinRuntime="soon"),
        "spec.reclaimMinRuntime",
        "0s or more",
    ),
    "a limit below the quota": (
        queue("q", {"quota": 8, "limit": 4, "overQuotaWeight": 1}),
        "spec.resources.gpu.quota",
        "raise the limit",
    ),
    "a maximum run time of -1s": (
        queue("q", annotations={"kai.scheduler/max-run-time": "-1s"}),
        "[kai.scheduler/max-run-time]",
        "0s or more",
    ),
    "a strategy that is none": (
        queue("q", annotations={"kai.scheduler/placement-strategy": "pile"}),
        "[kai.scheduler/placement-strategy]",
        "binpack nor spread",
    ),
    "a topology without levels": (topology("t"), "spec.levels", "1 to 16"),
    "a level twice": (topology("t", "a", "a"), "spec.levels[1]", "its own name"),
    "a required level below the preferred one": (
        group(
            topologyConstraint={
                "topology": "good",
                "requiredTopologyLevel": RACK,
                "preferredTopologyLevel": ZONE,
            }
        ),
        "spec.topologyConstraint.requiredTopologyLevel",
        "require the wider",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_field_and_mend(told: Told, case: str) -> None:
    told.submit(topology("good", ZONE, RACK))
    obj, field, mend = REFUSED[case]
    done = told.kai("submit", "-", stdin=json.dumps(obj))
    assert done.exit_code == 1
    assert field in done.output and mend in done.output, done.output


def bound(required: str, name: str = "good") -> dict[str, str]:
    return {"kai.scheduler/topology": name, "kai.scheduler/topology-required-placement": required}


#: What can only be seen to be wrong later: it starts nothing, and says why.
INERT: dict[str, tuple[Any, str]] = {
    "memory above any card": (pod(gpu_memory="9000000"), "GpuTooSmall"),
    "a level that no node has": (
        job("p", "vision", 2, 1, annotations=bound("no/such", "void")),
        "no node belongs to one",
    ),
    "a topology that is not there": (
        job("p", "vision", 2, 1, annotations=bound(RACK, "gone")),
        "TopologyNotFound",
    ),
    "a share of 1.5 in a job": (
        job("p", "vision", 1, 0, template={"gpu-fraction": "1.5"}),
        "refused   Pod",
    ),
    "levels upside down in a job": (
        job(
            "p",
            "vision",
            2,
            1,
            annotations={**bound(RACK), "kai.scheduler/topology-preferred-placement": ZONE},
        ),
        "require the wider",
    ),
}


@pytest.mark.parametrize("case", INERT)
def test_it_starts_nothing_and_says_why_and_others_go_on(told: Told, case: str) -> None:
    told.submit(topology("good", ZONE, RACK), topology("void", "no/such"))
    obj, word = INERT[case]
    told.submit(obj)
    told.submit(job("other", "vision", 2, 8))
    told.world.run_for(3)
    assert word in told("explain", "p"), told("explain", "p")
    assert "Running" in told("get", "jobs", "other")
    pods = json.loads(told("get", "jobs", "-o", "json"))["items"]
    assert all(j["pods"]["running"] == 0 for j in pods if j["name"] == "p")


def test_ten_thousand_segments_do_not_hold_up_others(told: Told) -> None:
    notes = {
        "kai.scheduler/topology": "good",
        "kai.scheduler/segment-size": "1",
        "kai.scheduler/segment-topology-required-placement": RACK,
    }
    told.submit(topology("good", ZONE, RACK))
    parts = [{"name": f"s{i}", "minMember": 1} for i in range(10_000)]
    told.submit(group(minMember=None, subGroups=parts))
    told.submit(job("wide", "vision", 2, 8, annotations=notes))
    told.submit(job("other", "search", 1, 8))
    told.world.run_for(3)
    assert "Running" in told("get", "jobs", "other")

"""What users say about scheduling, and where each kind of workload keeps it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kai_ray
from kai_ray.cluster.resources import POD_GROUP, TOPOLOGY
from kai_ray.podgrouper.manifests import Document, read_documents
from kai_ray.podgrouper.plan import plan_documents
from kai_ray.sdk import rewriting, scheduling
from kai_ray.sdk.client import Client

from .conftest import EXAMPLES

FILES = sorted((EXAMPLES / "workloads").glob("*.yaml"))


def workload(kind: str) -> dict[str, Any]:
    """The example of a kind."""
    for file in FILES:
        for document in read_documents(file):
            if document.object["kind"] == kind:
                return document.object
    raise AssertionError(kind)


def written(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    return rewriting.with_options(manifest, scheduling.checked(options))


KINDS = ["Job", "RayJob", "RayCluster", "RayService", "PyTorchJob", "MPIJob", "TrainJob"]


@pytest.mark.parametrize("kind", KINDS)
def test_queue_priority_and_topology_reach_the_gang_of_every_kind(kai: Client, kind: str) -> None:
    kai.port.create(TOPOLOGY, topology("racks", ("rack", "cloud/rack")))
    name = workload(kind)["metadata"]["name"]
    documents = [d.object for f in FILES for d in read_documents(f) if kind in f.read_text()]
    chosen = [o for o in documents if o["kind"] == kind or o["kind"] in SUPPORT]
    job = kai.submit(
        chosen, queue="search", priority="build-preemptible", topology="rack", user="ada"
    )
    assert job.name == name
    job.wait(timeout=60, until="decided")
    groups = kai.port.list(POD_GROUP, "default").items
    specs = [g["spec"] for g in groups]
    assert {s["queue"] for s in specs} == {"search"}
    assert {s["priorityClassName"] for s in specs} == {"build-preemptible"}
    constraint = {"topology": "racks", "requiredTopologyLevel": "rack"}
    assert all(constraint.items() <= s["topologyConstraint"].items() for s in specs)


SUPPORT = ("ConfigMap", "ClusterTrainingRuntime")


def topology(name: str, *levels: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"levels": [{"alias": a, "nodeLabel": label} for a, label in levels]},
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topology": "rack"}, "no single Topology has the level rack"),
        ({"topology": "block"}, "there is cloud/rack, rack"),
    ],
)
def test_a_level_is_looked_up_and_must_be_plain(kai: Client, options: dict, says: str) -> None:
    for name in ("one", "two"):
        kai.port.create(TOPOLOGY, topology(name, ("rack", "cloud/rack")))
    with pytest.raises(kai_ray.InvalidManifest, match=says):
        kai.submit(workload("Job"), **options)


# ---------------------------------------------------------------------- parts of cards


@pytest.mark.parametrize("kind", ["Job", "RayService"])
def test_a_part_of_a_card_takes_the_place_of_the_whole_one(kind: str) -> None:
    before = workload(kind)
    after = written(before, gpu_fraction=0.5)
    assert before == workload(kind), "what the caller holds is not changed"
    shared = [t for t in rewriting.pod_templates(after) if "metadata" in t.object]
    notes = [t.object["metadata"]["annotations"] for t in shared]
    assert notes == [{"gpu-fraction": "0.5"}]
    assert "nvidia.com/gpu" not in str(shared[0].object)


def test_heads_and_launchers_without_gpus_get_no_part() -> None:
    made = written(kai_ray.RayJob("r", "x", workers=2, gpus=1).manifest(), gpu_memory=8000)
    spec = made["spec"]["rayClusterSpec"]
    assert "metadata" not in spec["headGroupSpec"]["template"]
    worker = spec["workerGroupSpecs"][0]["template"]
    assert worker["metadata"]["annotations"] == {"gpu-memory": "8000"}


def test_where_no_pod_names_a_gpu_the_workers_of_ray_share() -> None:
    made = written(kai_ray.RayCluster("r").manifest(), gpu_fraction=0.25)
    assert str(made).count("gpu-fraction") == 1


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("RayJob", "asks for 4 GPUs and for a part of one"),
        ("TrainJob", "no pod template"),
    ],
)
def test_a_part_that_has_no_place_is_refused(kind: str, says: str) -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=says):
        written(workload(kind), gpu_fraction=0.5)


def test_a_shared_card_is_really_shared(kai: Client) -> None:
    pods = kai_ray.BatchJob("halves", image="busybox", gpus=1, pods=2)
    job = kai.submit(pods, queue="vision", gpu_fraction=0.5).wait(timeout=60, until="started")
    assert (job.gpus, len(job.nodes)) == (1.0, 1)


# ---------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("manifest", "options", "floor"),
    [
        (kai_ray.RayJob("r", "x", workers=4, gpus=1), {"min_workers": 2}, 3),
        (kai_ray.RayJob("r", "x", workers=1), {"min_workers": 1, "max_workers": 8}, 2),
        (kai_ray.RayCluster("r", workers=2, autoscaling=True), {"min_workers": 2}, 3),
        (kai_ray.PyTorchJob("p", image="i", workers=4), {"min_workers": 2}, 2),
        (
            kai_ray.PyTorchJob("p", image="i", workers=4, elastic=True),
            {"min_workers": 2, "max_workers": 6},
            2,
        ),
        (kai_ray.BatchJob("b", image="i", pods=4), {"min_workers": 3}, 3),
        (kai_ray.BatchJob("b", image="i", pods=4), {}, 4),
        (kai_ray.BatchJob("b", image="i", pods=4), {"max_workers": 8}, 4),
    ],
)
def test_so_many_pods_start_together(manifest: Any, options: dict, floor: int) -> None:
    made = written(manifest.manifest(), **options)
    (plan,) = plan_documents([Document("here", made)])
    (gang,) = plan.gangs
    assert gang.min_member == floor


def test_a_job_with_bounds_starts_small_grows_and_is_the_first_to_shrink(kai: Client) -> None:
    sweep = kai_ray.RayCluster("sweep", workers=1, gpus=8)
    job = kai.submit(sweep, queue="vision", min_workers=1, max_workers=3)
    assert job.wait(timeout=60, until="started").pods == (2, 2)
    until(kai, lambda: job.pods[0] == 4)  # a head and three workers: 24 GPUs
    other = kai.submit(kai_ray.BatchJob("other", image="busybox", gpus=8, pods=2), queue="search")
    assert other.wait(timeout=120, until="started").status == "Running"
    assert job.pods[0] >= 2, "it gave workers, and goes on"
    assert not [e for e in job.events() if e.reason in ("Reclaimed", "Evicted")]


def until(kai: Client, true: Any, timeout_s: float = 600) -> None:
    end = kai.pace.now() + timeout_s
    while not true():
        assert kai.pace.now() < end
        kai.pace.sleep(1)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("MPIJob", {"max_workers": 4}, "a MPIJob cannot grow"),
        ("PyTorchJob", {"max_workers": 4}, "while it has a Master"),
        ("RayJob", {"max_workers": 1}, "replicas is 2, more than max_workers=1"),
        ("RayJob", {"min_workers": 5, "max_workers": 4}, "min_workers=5 is more"),
    ],
)
def test_bounds_that_a_job_cannot_have_are_refused(kind: str, options: dict, says: str) -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=says):
        written(workload(kind), **options)


# ---------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queue": "team a"}, "queue='team a' can be no label's value"),
        ({"queue": ""}, "can be no label's value"),
        ({"priority": 50}, "priority=50 is int, not a name"),
        ({"preemptible": "perhaps"}, "semi-preemptible"),
        ({"gpu_fraction": 1.0}, "no part of a card"),
        ({"gpu_fraction": float("nan")}, "no part of a card"),
        ({"gpu_fraction": True}, "no part of a card"),
        ({"gpu_memory": 0}, "gpu_memory=0"),
        ({"min_workers": 1.5}, "min_workers=1.5"),
        ({"min_workers": float("inf")}, "min_workers=inf"),
        ({"gpu_fraction": 0.5, "gpu_memory": 100}, "say the same"),
        ({"gpu_devices": 2}, "beside it"),
        ({"eviction_grace": "soon"}, "no duration"),
    ],
)
def test_values_that_mean_nothing_are_named(options: dict, says: str) -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=re.escape(says)):
        written(workload("Job"), **options)


def test_labels_and_annotations_say_which_is_which() -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=r"kai_ray.annotations\(topology"):
        kai_ray.labels(topology="rack")
    with pytest.raises(kai_ray.InvalidManifest, match=r"kai_ray.labels\(queue"):
        kai_ray.annotations(queue="vision")
    with pytest.raises(kai_ray.InvalidManifest, match="name the Topology"):
        kai_ray.annotations(topology="rack")


@given(st.text(max_size=70), st.sampled_from(["queue", "priority", "user", "node_pool"]))
def test_a_label_is_valid_or_refused(text: str, option: str) -> None:
    try:
        found = kai_ray.labels(**{option: text})  # type: ignore[arg-type]
    except kai_ray.InvalidManifest:
        return
    (value,) = found.values()
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "containers", "template", "metadata", "resources", "limits", "replicas"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from(KINDS))
def test_any_spec_is_rewritten_or_refused_but_never_a_crash(spec: Any, kind: str) -> None:
    manifest = copy.deepcopy(workload(kind)) | {"spec": spec}
    for options in ({"gpu_fraction": 0.5}, {"min_workers": 2, "max_workers": 4}, {"queue": "q"}):
        try:
            written(manifest, **options)
        except kai_ray.InvalidManifest:
            continue

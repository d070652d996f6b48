"""No manifest makes the podgrouper fail: what cannot be grouped is refused in words."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.podgrouper.manifests import Document, ManifestError, parse_documents
from kai_ray.podgrouper.plan import plan_documents, plan_files
from kai_ray.podgrouper.plan_output import as_objects, to_table
from tests.podgrouper import planning
from tests.podgrouper.planning import Object, gangs, pods, refusal, workload
from tests.podgrouper.test_jobset_phases import job_set, replicated, runtime, train_job
from tests.podgrouper.test_plan_kinds import training
from tests.podgrouper.test_plan_ray import ray_job
from tests.podgrouper.world import ray_cluster

SEEDS: list[Object] = [
    ray_cluster(),
    ray_job(),
    training("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
    job_set(replicated("a"), replicated("b", 2, dependsOn=[{"name": "a", "status": "Ready"}])),
    train_job(numNodes=2),
    runtime(),
    workload("batch/v1", "Job", {"template": pods()}),
    workload("apps/v1", "Deployment", {"replicas": 2, "template": pods()}),
    workload(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pods()}},
    ),
    workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"executor": {"instances": 2}}),
    workload("grove.io/v1alpha1", "PodCliqueSet", {"template": {"cliques": [{"name": "c"}]}}),
    workload(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        {"components": [{"template": workload("batch/v1", "Job", {"template": pods()})}]},
    ),
    workload("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"workerSpec": {}}}),
    {**pods(), "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
]
WILD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 2**31, 2**63, 10**30, 0.5, float("nan"), float("inf"), "x", "", "5"]),
    st.just([]),
    st.just({}),
    st.just([None, 1, "a", {}]),
    st.just({"metadata": 3, "spec": "x", "name": []}),
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here] if here else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        found += paths(inner, (*here, key))
    return found


@st.composite
def broken(draw: Any) -> Object:
    obj = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        where = draw(st.sampled_from(paths(obj)))
        target = obj
        try:
            for key in where[:-1]:
                target = target[key]
            target[where[-1]] = copy.deepcopy(draw(WILD))
        except (KeyError, IndexError, TypeError):
            continue
    return obj


@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(broken(), broken())
def test_any_manifest_is_planned_refused_or_left_out(one: Object, other: Object) -> None:
    found = plan_documents([Document("f", one), Document("f", other)])
    to_table(found)
    for row in as_objects(found):
        assert row["error"] is None or row["gangs"] == []
        assert all(gang["minMember"] >= 0 for gang in row["gangs"])


@pytest.mark.parametrize("text", ["a: [", "\t", '{"a": ]}', "a: b: c", "\x00"])
def test_a_file_that_cannot_be_parsed_is_named(text: str) -> None:
    with pytest.raises(ManifestError, match=r"some\.yaml"):
        parse_documents(text, "some.yaml")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ManifestError, match="nowhere"):
        plan_files(["/nowhere.yaml"])


def test_lists_and_json_are_read_too() -> None:
    job = workload("batch/v1", "Job", {"template": pods()})
    bundle = {"apiVersion": "v1", "kind": "List", "items": [job, None, job]}
    assert len(parse_documents(str(bundle).replace("None", "null"), "f")) == 2


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (workload("batch/v1", "Job", {}), "spec.template"),
        (workload("batch/v1", "Job", {"parallelism": -1, "template": pods()}), "spec.parallelism"),
        (workload("batch/v1", "Job", {"parallelism": True, "template": pods()}), "parallelism"),
        (workload("batch/v1", "Job", {"template": pods("-1")}), "requests.cpu"),
        (workload("batch/v1", "Job", {"template": pods("NaN")}), "requests.cpu"),
        (
            workload(
                "batch/v1",
                "Job",
                {"template": pods()},
                annotations={"kai.scheduler/min-member": "many"},
            ),
            "kai.scheduler/min-member",
        ),
        (
            workload("apps/v1", "Deployment", {"replicas": 10**6, "template": pods()}),
            "spec.replicas",
        ),
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pods()}}, "metadata.name"),
    ],
)
def test_the_refusal_names_the_field(obj: Object, field: str) -> None:
    assert field in refusal(obj)


def test_a_million_pods_are_counted_at_once() -> None:
    (found,) = gangs(workload("batch/v1", "Job", {"parallelism": 10**6, "template": pods()}))
    assert (found.pods, found.requests) == (10**6, {"cpu": "1000000"})
    assert planning.shape(found) == []

"""Cases that no recording holds: our rule decides them, and nothing else does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.conformance.podgrouper import check

Case = dict[str, Any]
OWN = "kai.scheduler/top-owner-metadata"


def case(
    grouper: str,
    top: Case,
    expect: Case | str,
    *,
    pod: Case | None = None,
    owners: list[Case] | None = None,
    reads: list[Case] | None = None,
) -> Case:
    """A vector; `expect` is what KAI would say, or its error."""
    error = expect if isinstance(expect, str) else None
    return {
        "id": "made",
        "input": {
            "grouper": grouper,
            "config": {"queue_label_key": "kai.scheduler/queue"},
            "top_owner": top,
            "pod": pod or {"metadata": {"name": "p", "namespace": "ns"}, "spec": {}},
            "other_owners": owners or [],
            "api_reads": reads or [],
        },
        "expect": {"error": error, "metadata": None if error else expect},
    }


def ray(*groups: Case, **spec: Any) -> Case:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": {"workerGroupSpecs": list(groups), **spec},
    }


def kais(floor: int, *subs: tuple[str, int], **more: Any) -> Case:
    """KAI's metadata of the cluster above."""
    return {
        "name": "pg-c-u",
        "namespace": "ns",
        "queue": "default-queue",
        "priority_class_name": "train",
        "preemptibility": None,
        "min_available": floor,
        "owner": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "c", "uid": "u"},
        "labels": {},
        "annotations": {OWN: "name: c\nuid: u\ngroup: ray.io\nversion: v1\nkind: RayCluster\n"},
        "sub_groups": [
            {"name": n, "min_available": m, "parent": None, "pods": [], "topology_constraint": None}
            for n, m in subs
        ],
        "topology_constraint": None,
        **more,
    }


HEAD = ("headgroup", 1)
RAY = "ray.RayClusterGrouper"


@pytest.mark.parametrize(
    ("top", "expect", "verdict"),
    [
        (
            ray({"groupName": "a", "minReplicas": 2, "replicas": 3}, enableInTreeAutoscaling=True),
            kais(3, HEAD, ("a", 2)),
            "passed",
        ),
        (
            ray({"groupName": "a", "replicas": 3}, enableInTreeAutoscaling=True),
            kais(4, HEAD, ("a", 3)),
            "differs by rule 2",
        ),
        (
            ray({"groupName": "a", "minReplicas": 1, "replicas": 3}),
            kais(2, HEAD, ("a", 1)),
            "differs by rule 2",
        ),
        (
            ray({"groupName": "a", "minReplicas": 2, "replicas": 2, "suspend": True}),
            kais(3, HEAD, ("a", 2)),
            "differs by rule 2",
        ),
        (
            ray({"groupName": "a", "minReplicas": 4, "replicas": 2}),
            "minReplicas 4 is larger than replicas 2",
            "differs by rule 2",
        ),
        (
            ray({"groupName": "a", "minReplicas": 2, "replicas": 2, "numOfHosts": 4}),
            kais(9, HEAD, ("a", 8)),
            "differs by rule 3",
        ),
        (ray({"groupName": "a", "replicas": 0}), kais(1, HEAD), "passed"),
        (ray(), kais(2, HEAD), "failed"),
    ],
)
def test_floors(top: Case, expect: Case | str, verdict: str) -> None:
    found, detail = check(case(RAY, top, expect))
    # An answer that no rule explains from the input excuses nothing.
    assert found == verdict, detail


def test_a_product_that_is_wrong_fails_whatever_the_rule() -> None:
    wrong = case(RAY, ray({"groupName": "a", "minReplicas": 1, "replicas": 3}), kais(2, HEAD))
    wrong["expect"]["metadata"]["queue"] = "elsewhere"
    assert check(wrong)[0] == "failed"


def test_a_job_on_a_foreign_cluster() -> None:
    top = {
        **ray(),
        "kind": "RayJob",
        "spec": {"clusterSelector": {"ray.io/cluster": "x"}},
        "status": {"rayClusterName": "x"},
    }
    expect = kais(3, HEAD, ("a", 2))
    expect["owner"] = {**expect["owner"], "kind": "RayJob"}
    expect["annotations"] = {OWN: expect["annotations"][OWN].replace("RayCluster", "RayJob")}
    assert check(case("ray.RayJobGrouper", top, expect))[0] == "differs by rule 1"


def test_a_level_whose_topology_the_workload_names() -> None:
    notes = {"kai.scheduler/topology-required-placement": "rack"}
    group = {"groupName": "a", "replicas": 1, "template": {"metadata": {"annotations": notes}}}
    top = ray(group)
    assert check(case(RAY, top, "topology is missing"))[0] == "passed"
    named = copy.deepcopy(top)
    named["metadata"]["annotations"] = {"kai.scheduler/topology": "t"}
    assert check(case(RAY, named, "topology is missing"))[0] == "differs by rule 5"


def job_set(*jobs: Case, **spec: Any) -> Case:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


def replicated(name: str, parallelism: int, **more: Any) -> Case:
    extra = {"completions": more.pop("completions")} if "completions" in more else {}
    return {"name": name, "template": {"spec": {"parallelism": parallelism, **extra}}, **more}


def kais_set(root: int, *jobs: tuple[str, int]) -> Case:
    found = kais(0)
    found["owner"] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "c",
        "uid": "u",
    }
    found["annotations"] = {
        OWN: "name: c\nuid: u\ngroup: jobset.x-k8s.io\nversion: v1alpha2\nkind: JobSet\n"
    }
    found["min_sub_group"] = root
    for name, pods in jobs:
        base = {"pods": [], "topology_constraint": None}
        found["sub_groups"] += [
            {"name": name, "min_available": 0, "min_sub_group": 1, "parent": None, **base},
            {
                "name": f"{name}-replica-0",
                "min_available": pods,
                "parent": name,
                "topology_constraint": None,
                "pods": ["p"] if name == "a" else [],
            },
        ]
    return found


@pytest.mark.parametrize(
    ("top", "expect", "verdict"),
    [
        (
            job_set(replicated("a", 1), replicated("b", 2)),
            kais_set(2, ("a", 1), ("b", 2)),
            "passed",
        ),
        (
            job_set(
                replicated("a", 1),
                replicated("b", 2, dependsOn=[{"name": "a", "status": "Complete"}]),
            ),
            kais_set(2, ("a", 1), ("b", 2)),
            "differs by rule 6",
        ),
        (
            job_set(
                replicated("a", 1),
                replicated("b", 2),
                startupPolicy={"startupPolicyOrder": "InOrder"},
            ),
            kais_set(1, ("a", 1), ("b", 2)),
            "differs by rule 6",
        ),
        (job_set(replicated("a", 4, completions=2)), kais_set(1, ("a", 4)), "differs by rule 6"),
    ],
)
def test_phases(top: Case, expect: Case, verdict: str) -> None:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "a",
        "jobset.sigs.k8s.io/job-index": "0",
    }
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": labels}, "spec": {}}
    found, detail = check(case("jobset.JobSetGrouper", top, expect, pod=pod))
    assert found == verdict, detail


def test_the_nearest_owner_comes_before_the_pod() -> None:
    key = "kai.scheduler/queue"
    near = {
        "kind": "Near",
        "apiVersion": "x/v1",
        "metadata": {"name": "n", "labels": {key: "near"}},
    }
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": {key: "pod"}}, "spec": {}}
    expect = kais(1, queue="pod")
    found, detail = check(
        case("defaultgrouper.DefaultGrouper", ray(), expect, pod=pod, owners=[near])
    )
    assert found == "differs by rule 7", detail

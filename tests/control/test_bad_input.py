"""Input that makes no sense: a clear word about it, nobody else slowed down, nothing lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import AlreadyExists, ApiError, Invalid, Resource
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from . import objects


class _Cluster:
    def __init__(self) -> None:
        config = ClusterConfig.short("2x8")
        self.embedded = EmbeddedCluster(config, VirtualClock())
        self.store = self.embedded.store

    def run(self, seconds: float = 5.0) -> None:
        self.embedded.run_for(seconds)

    def make(self, resource: Resource, obj: dict[str, Any], *, checked: bool = True) -> Any:
        """`checked` False: as if it had been there before our admission was."""
        if checked:
            return self.store.create(resource, obj)
        plugins, self.store.admission = self.store.admission, []
        try:
            return self.store.create(resource, obj)
        finally:
            self.store.admission = plugins

    def job(self, name: str, labels: dict[str, str] | None = None, *, pods: int = 2) -> None:
        resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        template = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "app", "resources": resources}],
            }
        }
        meta = {"name": name, "namespace": "default", "labels": labels or {}}
        spec = {"parallelism": pods, "completions": pods, "template": template}
        self.make(kinds.JOB, {"metadata": meta, "spec": spec})

    def pods(self, of: str) -> list[dict[str, Any]]:
        return [
            p
            for p in self.store.list(kinds.POD, "default").items
            if p["metadata"]["name"].startswith(of)
        ]

    def runs(self, of: str) -> bool:
        pods = self.pods(of)
        return bool(pods) and all(p["spec"].get("nodeName") for p in pods)

    def waiting(self, owner: str) -> dict[str, Any]:
        """The Scheduled condition of the gang of a workload."""
        for group in self.store.list(kinds.POD_GROUP).items:
            references = group["metadata"].get("ownerReferences") or [{}]
            if owner in (references[0].get("name"), group["metadata"]["name"]):
                for condition in (group.get("status") or {}).get("conditions") or []:
                    if condition["type"] == "Scheduled":
                        return condition
        return {}

    def others_run(self) -> bool:
        """A job that has done nothing wrong starts within moments."""
        self.job("innocent")
        self.run(2)
        return self.runs("innocent")

    def condition(self, queue: str, kind: str) -> dict[str, Any]:
        status = self.store.get(kinds.QUEUE, queue).get("status") or {}
        return next((c for c in status.get("conditions") or [] if c["type"] == kind), {})


@pytest.fixture
def cluster() -> Iterator[_Cluster]:
    made = _Cluster()
    yield made
    made.embedded.stop()


def _refused(cluster: _Cluster, resource: Resource, obj: dict[str, Any]) -> tuple[set[str], str]:
    """The fields and the words of a refusal."""
    with pytest.raises(Invalid) as caught:
        cluster.make(resource, obj)
    causes = caught.value.details["causes"]
    return {c["field"] for c in causes}, caught.value.message


def test_a_malformed_manifest_is_refused_by_field(cluster: _Cluster) -> None:
    job = {
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"parallelism": "many", "template": {"spec": {"containers": "none"}}},
    }
    with pytest.raises(ApiError) as caught:
        cluster.make(kinds.JOB, job)
    assert "spec" in caught.value.message
    ray = {
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"workerGroupSpecs": [{"groupName": "w", "replicas": "three"}]},
    }
    with pytest.raises(ApiError) as caught:
        cluster.make(kinds.RAY_CLUSTER, ray)
    assert "replicas" in caught.value.message
    assert cluster.others_run()


def test_a_malformed_pod_that_got_in_is_named_and_waits_alone(cluster: _Cluster) -> None:
    cluster.make(kinds.POD_GROUP, objects.podgroup("odd", "default-queue"))
    good = cluster.make(kinds.POD, objects.pod("odd-0", "odd", gpus=1))
    broken = {**good, "metadata": {**good["metadata"], "name": "odd-1", "uid": "u-odd"}}
    requests = {"nvidia.com/gpu": "half a dozen"}
    broken["spec"] = {"schedulerName": "kai-scheduler", "containers": [{"name": "a"}]}
    broken["spec"]["containers"][0]["resources"] = {"requests": requests}
    cluster.embedded.control.encoder.apply(kinds.POD, None, broken)
    cluster.embedded.control.loop.kick()
    cluster.run()
    said = cluster.waiting("odd")
    assert said["status"] == "True"  # its other pod runs
    assert "Misconfigured" in said["message"] and "half a dozen" in said["message"]
    (problem,) = cluster.embedded.control.encoder.snapshot(0.0).problems
    assert (problem.kind, problem.name) == ("Pod", "odd-1")
    assert problem.field == "spec.containers[0].resources.requests[nvidia.com/gpu]"
    assert "half a dozen" in problem.mend
    assert cluster.others_run()


def test_an_unknown_queue_is_named_with_its_mend(cluster: _Cluster) -> None:
    cluster.job("lost", {"kai.scheduler/queue": "nowhere"})
    cluster.run()
    said = cluster.waiting("lost")
    assert (said["status"], said["reason"]) == ("False", "QueueNotFound")
    assert "nowhere" in said["message"] and "create it" in said["message"]
    assert cluster.others_run()
    cluster.make(kinds.QUEUE, objects.queue("nowhere"))
    cluster.run()
    assert cluster.runs("lost")


def test_a_queue_cycle_is_refused(cluster: _Cluster) -> None:
    cluster.make(kinds.QUEUE, objects.queue("a"))
    cluster.make(kinds.QUEUE, objects.queue("b", "a"))
    with pytest.raises(Invalid) as caught:
        cluster.store.patch(kinds.QUEUE, "a", {"spec": {"parentQueue": "b"}})
    assert caught.value.details["causes"][0]["field"] == "spec.parentQueue"
    assert "a -> b -> a" in caught.value.message
    own, _ = _refused(cluster, kinds.QUEUE, objects.queue("self", "self"))
    assert own <= {"spec.parentQueue", "spec"}


def test_a_queue_cycle_that_is_there_already_starts_nothing_and_says_so(cluster: _Cluster) -> None:
    cluster.make(kinds.QUEUE, objects.queue("a", "b"), checked=False)
    cluster.make(kinds.QUEUE, objects.queue("b", "a"), checked=False)
    cluster.make(kinds.QUEUE, objects.queue("below", "b"), checked=False)
    cluster.job("stuck", {"kai.scheduler/queue": "below"})
    assert cluster.others_run()
    cluster.run()
    assert cluster.condition("a", "Orphan")["status"] == "True"
    assert "cycle" in cluster.condition("a", "Ready")["message"]
    assert cluster.condition("below", "Ready")["status"] == "False"
    assert cluster.waiting("stuck")["reason"] == "Misconfigured"
    cluster.store.patch(kinds.QUEUE, "a", {"spec": {"parentQueue": None}})
    cluster.run()
    assert cluster.runs("stuck")
    assert cluster.condition("a", "Ready")["status"] == "True"


@pytest.mark.parametrize("value", [-2, -0.5, float("nan"), float("inf"), 2**63, "4", True])
@pytest.mark.parametrize("key", ["quota", "limit"])
def test_a_quantity_that_is_none_is_refused(cluster: _Cluster, key: str, value: Any) -> None:
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1, key: value}
    with pytest.raises(ApiError) as caught:
        cluster.make(kinds.QUEUE, objects.queue("q", gpu=share))
    assert f"spec.resources.gpu.{key}" in caught.value.message
    assert cluster.others_run()


@pytest.mark.parametrize("value", [-2, float("nan"), 2.0**63])
def test_a_bad_quantity_that_is_there_already_makes_its_queue_inert(
    cluster: _Cluster, value: float
) -> None:
    queue = objects.queue("q", gpu={"quota": value, "limit": -1})
    cluster.embedded.control.encoder.apply(kinds.QUEUE, None, queue)
    cluster.job("stuck", {"kai.scheduler/queue": "q"})
    assert cluster.others_run()
    cluster.run()
    said = cluster.waiting("stuck")
    assert said["reason"] == "Misconfigured"
    assert "spec.resources.gpu.quota" in said["message"]
    assert not cluster.runs("stuck")


def test_minus_one_is_unlimited(cluster: _Cluster) -> None:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 0}
    cluster.make(kinds.QUEUE, objects.queue("q", gpu=share))
    cluster.job("fine", {"kai.scheduler/queue": "q"})
    cluster.run()
    assert cluster.runs("fine")


def test_a_quota_above_the_limit_is_refused(cluster: _Cluster) -> None:
    fields, words = _refused(cluster, kinds.QUEUE, objects.queue("q", gpu={"quota": 8, "limit": 4}))
    assert any("gpu" in f for f in fields)
    assert "limit" in words


@pytest.mark.parametrize("amount", ["-1", "NaN", str(2**63), "lots"])
def test_a_pod_that_asks_for_nonsense_is_refused_or_named(cluster: _Cluster, amount: str) -> None:
    with pytest.raises(ApiError) as caught:
        cluster.make(kinds.POD, objects.pod("greedy", gpus=amount))
    assert "nvidia.com/gpu" in caught.value.message
    assert cluster.others_run()


def test_a_million_subgroups_are_refused_at_once(cluster: _Cluster) -> None:
    subgroups = [{"name": f"s{i}", "minMember": 1} for i in range(10**6)]
    group = objects.podgroup("huge", "default-queue", None, subGroups=subgroups)
    before = time.process_time()
    fields, words = _refused(cluster, kinds.POD_GROUP, group)
    assert time.process_time() - before < 5.0
    assert fields == {"spec.subGroups"}
    assert "10000" in words
    assert cluster.others_run()


def test_too_many_subgroups_that_are_there_already_are_inert(cluster: _Cluster) -> None:
    subgroups = [{"name": f"s{i}", "minMember": 0} for i in range(10_001)]
    group = objects.podgroup("huge", "default-queue", None, subGroups=subgroups)
    cluster.embedded.control.encoder.apply(kinds.POD_GROUP, None, group)
    (problem,) = cluster.embedded.control.encoder.snapshot(0.0).problems
    assert problem.field == "spec.subGroups"
    assert cluster.others_run()


@pytest.mark.parametrize(
    ("subgroups", "field"),
    [
        ([{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}], "spec.subGroups[1]"),
        ([{"name": "a", "minMember": 1, "parent": "b"}], "spec.subGroups[0].parent"),
        ([{"name": "A", "minMember": 1}], "spec.subGroups[0].name"),
        ([{"name": "a"}], "spec.subGroups[0].minMember"),
        ([{"name": "a", "minSubGroup": 1}], "spec.subGroups[0].minSubGroup"),
        ([{"name": "a", "minMember": 1, "minSubGroup": 1}], "spec.subGroups[0].minSubGroup"),
        ([{"name": "a", "minMember": -1}], "spec.subGroups[0].minMember"),
        (
            [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1, "parent": "a"}],
            "spec.subGroups[0].minMember",
        ),
    ],
)
def test_a_tree_of_subgroups_that_cannot_be_is_refused(
    cluster: _Cluster, subgroups: list[Any], field: str
) -> None:
    group = objects.podgroup("tree", "default-queue", None, subGroups=subgroups)
    fields, _ = _refused(cluster, kinds.POD_GROUP, group)
    assert any(f.startswith(field) for f in fields), fields


def test_subgroups_that_are_parents_of_each_other_are_refused(cluster: _Cluster) -> None:
    subgroups = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    group = objects.podgroup("tree", "default-queue", None, subGroups=subgroups)
    _, words = _refused(cluster, kinds.POD_GROUP, group)
    assert "cycle" in words


def test_a_name_that_is_taken_is_refused_and_the_first_one_unharmed(cluster: _Cluster) -> None:
    cluster.job("twin")
    with pytest.raises(AlreadyExists):
        cluster.job("twin")
    cluster.run()
    assert cluster.runs("twin")


def test_equal_podgroup_names_in_two_namespaces_are_two_gangs(cluster: _Cluster) -> None:
    cluster.make(kinds.NAMESPACE, {"metadata": {"name": "other"}})
    for namespace, gpus in (("default", 1), ("other", 100)):
        group = objects.podgroup("same", "default-queue", 1, namespace=namespace)
        cluster.make(kinds.POD_GROUP, group)
        cluster.make(kinds.POD, objects.pod("same-0", "same", gpus=gpus, namespace=namespace))
    cluster.run()
    here = cluster.store.get(kinds.POD, "same-0", "default")
    there = cluster.store.get(kinds.POD, "same-0", "other")
    assert here["spec"].get("nodeName")
    assert not there["spec"].get("nodeName")
    group = cluster.store.get(kinds.POD_GROUP, "same", "other")
    (said,) = [c for c in group["status"]["conditions"] if c["type"] == "Scheduled"]
    assert said["status"] == "False"


def test_a_pod_of_a_subgroup_that_is_not_there_is_told_so(cluster: _Cluster) -> None:
    subgroups = [{"name": "head", "minMember": 1}]
    cluster.make(
        kinds.POD_GROUP, objects.podgroup("tree", "default-queue", None, subGroups=subgroups)
    )
    label = "kai.scheduler/subgroup-name"
    cluster.make(kinds.POD, objects.pod("tree-0", "tree", labels={label: "head"}))
    cluster.make(kinds.POD, objects.pod("tree-1", "tree", labels={label: "tail"}))
    cluster.run()
    assert cluster.runs("tree-0")
    stray = cluster.store.get(kinds.POD, "tree-1", "default")
    (said,) = [c for c in stray["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert said["message"].startswith("SubgroupNotFound:") and "tail" in said["message"]


def _owned_by(pod: str, kind: str, api_version: str, uid: str = "1") -> dict[str, Any]:
    made = objects.pod(pod)
    owner = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": uid}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def test_a_pod_whose_owner_is_missing_is_refused_not_lost(cluster: _Cluster) -> None:
    fields, words = _refused(cluster, kinds.POD, _owned_by("orphan", "Job", "batch/v1"))
    assert fields == {"metadata.ownerReferences[0]"}
    assert "'owner' does not exist" in words
    cluster.job("owner")
    fields, _ = _refused(cluster, kinds.POD, _owned_by("orphan", "Job", "batch/v1"))
    assert fields == {"metadata.ownerReferences[0].uid"}
    assert cluster.others_run()


def test_a_pod_whose_owner_is_of_a_kind_nobody_serves_runs(cluster: _Cluster) -> None:
    cluster.make(kinds.POD, _owned_by("alien", "Strange", "acme.example/v1"))
    cluster.run()
    assert cluster.runs("alien")


def test_a_pod_that_lost_its_owner_goes_without_disturbing(cluster: _Cluster) -> None:
    cluster.make(kinds.POD, _owned_by("orphan", "Job", "batch/v1"), checked=False)
    cluster.run()
    assert not cluster.pods("orphan")
    assert cluster.others_run()


def test_an_owner_that_vanishes_mid_way_takes_its_gang_and_nothing_else(cluster: _Cluster) -> None:
    cluster.job("fleeting", pods=12)
    cluster.job("steady", pods=3)
    cluster.embedded.run_until(lambda: bool(cluster.pods("fleeting")), 10)
    cluster.store.delete(kinds.JOB, "fleeting", "default")
    cluster.run(90)
    assert not cluster.pods("fleeting")
    assert cluster.runs("steady")
    cluster.job("after", pods=13)
    cluster.run(2)
    assert cluster.runs("after")
    groups = {g["metadata"]["name"] for g in cluster.store.list(kinds.POD_GROUP).items}
    assert not any("fleeting" in name for name in groups)


def test_a_queue_with_children_cannot_be_deleted(cluster: _Cluster) -> None:
    with pytest.raises(Invalid) as caught:
        cluster.store.delete(kinds.QUEUE, "default-parent-queue")
    assert "default-queue" in caught.value.message

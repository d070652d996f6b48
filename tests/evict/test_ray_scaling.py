"""A RayCluster without some of its workers: by the contract between KubeRay and its autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object
from kai_ray.controllers.ray_scaling import without_workers


def cluster(*groups: Object, scales: bool = True) -> Object:
    spec = {"enableInTreeAutoscaling": scales, "workerGroupSpecs": list(groups)}
    return {"metadata": {"name": "ray", "namespace": "ns"}, "spec": spec}


def group(name: str = "w", **more: Any) -> Object:
    return {"groupName": name, "minReplicas": 1, "maxReplicas": 9, **more}


def worker(name: str, of: str = "w", replica: str = "") -> Object:
    labels = {L.RAY_GROUP: of, **({L.RAY_REPLICA_NAME: replica} if replica else {})}
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}}


def written(found: Object | None, at: int = 0) -> tuple[int, list[str]]:
    assert found is not None
    of = found["spec"]["workerGroupSpecs"][at]
    return of["replicas"], of["scaleStrategy"]["workersToDelete"]


def anything(namespace: str, name: str) -> bool:
    return True


def test_those_that_leave_are_named_and_the_group_shrinks_by_as_many() -> None:
    before = cluster(group(replicas=5))
    found = without_workers(before, [worker("b"), worker("a")], anything)
    assert written(found) == (3, ["a", "b"])
    assert "scaleStrategy" not in before["spec"]["workerGroupSpecs"][0], "the one read is shared"


def test_hosts_of_one_replica_count_once() -> None:
    hosts = [worker(f"h{i}", replica="one") for i in range(4)]
    assert written(without_workers(cluster(group(replicas=3)), hosts, anything))[0] == 2


def test_it_shrinks_to_its_minimum_and_no_further() -> None:
    leaving = [worker("a"), worker("b")]
    found = without_workers(cluster(group(replicas=2, minReplicas=1)), leaving, anything)
    assert written(found) == (1, ["a", "b"])


@pytest.mark.parametrize(("replicas", "size"), [(None, 1), (20, 8)])
def test_a_number_out_of_bounds_is_read_as_kuberay_reads_it(
    replicas: int | None, size: int
) -> None:
    found = without_workers(cluster(group(replicas=replicas)), [worker("a")], anything)
    assert written(found)[0] == size


def test_the_same_again_changes_nothing() -> None:
    first = without_workers(cluster(group(replicas=5)), [worker("a")], anything)
    assert first is not None
    assert without_workers(first, [worker("a")], anything) is None


def test_what_the_autoscaler_named_stays_and_who_has_gone_is_dropped() -> None:
    strategy = {"workersToDelete": ["theirs", "gone"]}
    before = cluster(group(replicas=5, scaleStrategy=strategy))
    found = without_workers(before, [worker("a")], lambda _, name: name != "gone")
    assert written(found) == (4, ["theirs", "a"])


def test_groups_are_told_apart() -> None:
    before = cluster(group("v", replicas=4), group("w", replicas=4))
    found = without_workers(before, [worker("a", "w")], anything)
    assert found is not None
    assert found["spec"]["workerGroupSpecs"][0] == group("v", replicas=4)
    assert written(found, 1) == (3, ["a"])


def test_without_the_autoscaler_the_number_is_the_users() -> None:
    assert (
        without_workers(cluster(group(replicas=4), scales=False), [worker("a")], anything) is None
    )

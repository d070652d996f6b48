"""Annotations that stand where nobody reads them are named, not passed over in silence."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as keys
from tests.podgrouper.planning import gang, refusal

POD = {"containers": [{"name": "pytorch", "image": "app"}]}


def torch(job: dict[str, str], worker: dict[str, str]) -> dict[str, Any]:
    def role(replicas: int, notes: dict[str, str]) -> dict[str, Any]:
        return {"replicas": replicas, "template": {"metadata": {"annotations": notes}, "spec": POD}}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t", "namespace": "default", "annotations": job},
        "spec": {"pytorchReplicaSpecs": {"Master": role(1, {}), "Worker": role(4, worker)}},
    }


def plain(notes: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"annotations": notes}, "spec": {**POD, "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template},
    }


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5"])
def test_a_size_of_segments_that_is_none_is_refused(size: str) -> None:
    assert keys.SEGMENT_SIZE in refusal(torch({}, {keys.SEGMENT_SIZE: size}))


@pytest.mark.parametrize("size", ["2", "x"])
def test_a_size_of_segments_where_there_are_none_is_told(size: str) -> None:
    for found in (
        gang(torch({keys.SEGMENT_SIZE: size}, {})),
        gang(plain({keys.SEGMENT_SIZE: size})),
    ):
        (note,) = found.notes
        assert f"annotation {keys.SEGMENT_SIZE}" in note
        assert "is ignored" in note


def test_a_level_for_segments_without_a_topology_is_told() -> None:
    notes = {keys.SEGMENT_SIZE: "2", keys.SEGMENT_TOPOLOGY_REQUIRED: "rack"}
    (note,) = gang(torch({}, notes)).notes
    assert keys.SEGMENT_TOPOLOGY_REQUIRED in note
    assert keys.TOPOLOGY in note
    assert gang(torch({keys.TOPOLOGY: "cloud"}, notes)).notes == ()


def test_a_level_for_the_pods_of_a_role_is_told_where_only_the_whole_can_have_one() -> None:
    notes = {keys.TOPOLOGY: "cloud", keys.TOPOLOGY_REQUIRED: "rack"}
    (note,) = gang(torch({}, notes)).notes
    assert "the template of worker" in note
    assert gang(torch(notes, {})).notes == ()

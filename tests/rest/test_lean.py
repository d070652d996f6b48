"""Objects for caches: what no decision reads is left out, and no decision changes by that."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.kube_lean import decoder
from kai_ray.cluster.rest import RestServer
from kai_ray.encode.volumes import references
from kai_ray.podgrouper.podspec import pod_requests
from tests.control.encoding import encoded
from tests.shared import shared_dir

PODS = (
    "jobset-0.12.0-js-leader-0-0-pod",
    "jobset-0.12.0-js-workers-0-0-pod",
    "kuberay-1.6.2-mh-head-pod",
    "kuberay-1.6.2-mh-slice-worker-pod",
    "kuberay-1.6.2-rayjob-http-head-pod",
)


def lean(resource: r.Resource, obj: dict[str, Any]) -> dict[str, Any]:
    return decoder(resource)(json.dumps(obj).encode())


@pytest.mark.parametrize("name", PODS)
def test_a_real_pod_means_the_same_and_is_smaller(name: str) -> None:
    text = shared_dir("operator-pods", f"{name}.yaml").read_text()
    whole = json.loads(json.dumps(yaml.safe_load(text), default=str))
    small = lean(r.POD, whole)
    assert len(json.dumps(small)) < len(json.dumps(whole))
    assert references(small) == references(whole)
    assert pod_requests(small) == pod_requests(whole)
    of_whole, of_small = encoded(whole), encoded(small)
    assert of_small.shapes == of_whole.shapes
    assert small["metadata"]["ownerReferences"] == whole["metadata"]["ownerReferences"]


def test_what_only_the_kubelet_runs_by_is_left_out_of_a_pod() -> None:
    container = {
        "name": "main",
        "command": ["train"],
        "env": [
            {"name": "SECRET", "value": "s" * 100_000},
            {"name": "FROM", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        "livenessProbe": {"exec": {"command": ["true"]}},
        "ports": [{"containerPort": 1, "hostPort": 2}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    meta = {"name": "p", "namespace": "n", "managedFields": [{"manager": "m"}]}
    pod = {
        "metadata": meta,
        "spec": {"containers": [container], "hostAliases": [], "nodeName": "a"},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "imageID": "x"}]},
    }
    assert lean(r.POD, pod) == {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "SECRET"}, container["env"][1]],
                    "ports": container["ports"],
                    "resources": container["resources"],
                }
            ],
            "nodeName": "a",
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "main"}]},
    }


def test_a_config_map_is_known_by_name_and_a_definition_by_its_versions() -> None:
    config_map = {"metadata": {"name": "c"}, "data": {"a": "b"}, "binaryData": {"x": "eA=="}}
    assert lean(r.CONFIG_MAP, config_map) == {"metadata": {"name": "c"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    crd = {"metadata": {"name": "d"}, "spec": {"group": "g", "versions": [version]}}
    del version["schema"]
    assert lean(r.CRD, crd) == {
        "metadata": {"name": "d"},
        "spec": {"group": "g", "versions": [version]},
    }


def test_other_kinds_lose_only_notes_about_who_wrote_them() -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"}
    meta = {"name": "j", "managedFields": [{}], "annotations": notes}
    job = {"metadata": meta, "spec": {"template": {"spec": {"containers": [{"command": ["a"]}]}}}}
    found = lean(r.JOB, job)
    assert found["metadata"] == {"name": "j", "annotations": {"mine": "1"}}
    assert found["spec"] == job["spec"]


def test_a_pod_that_is_not_as_pods_are_comes_whole() -> None:
    pod = {"metadata": {"name": "p", "managedFields": []}, "spec": {"containers": 3}}
    assert lean(r.POD, pod) == {"metadata": {"name": "p"}, "spec": {"containers": 3}}


def test_lists_and_watches_are_lean_and_reads_are_whole(server: RestServer, namespace: str) -> None:
    port = KubePort(server.connection(), lean=True)
    spec = {"containers": [{"name": "main", "image": "i", "command": ["train"]}]}
    port.create(r.POD, {"metadata": {"name": "p", "namespace": namespace}, "spec": spec})
    watch = port.watch(r.POD, namespace, resource_version="")
    try:
        (listed,) = port.list(r.POD, namespace).items
        assert "command" not in listed["spec"]["containers"][0]
        assert listed["kind"] == "Pod"
        event = watch.next(10)
        assert event is not None and "command" not in event.object["spec"]["containers"][0]
        assert port.get(r.POD, "p", namespace)["spec"]["containers"][0]["command"] == ["train"]
    finally:
        watch.close()
        port.close()

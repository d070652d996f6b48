"""The policy that wires containers where no webhook runs, in the API server's own words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.admission import gpu_env, policies
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Resource
from kai_ray.gpu import environment
from tests.real.control_plane import ControlPlane

_GROUP, _SCHEDULER = "admissionregistration.k8s.io", "kai-wiring"
_OWN = [{"name": "GPU_PORTION", "value": "mine"}]


@pytest.fixture(scope="module")
def wired(plane: ControlPlane) -> Iterator[ControlPlane]:
    version = policies.mutating_version(plane.port)
    found = policies.policies([_SCHEDULER], version)
    mine = [o for o in found if o["metadata"]["name"] == "kai-ray-gpu-environment"]
    resources = [
        Resource(_GROUP, version, f"mutatingadmissionpolic{end}", o["kind"], False)
        for o, end in zip(mine, ("ies", "ybindings"), strict=True)
    ]
    for resource, obj in zip(resources, mine, strict=True):
        plane.port.create(resource, obj)
    end = time.monotonic() + 30
    while not _env(_created(plane, [{}]), 0):
        assert time.monotonic() < end, "the policy never came into force"
        time.sleep(0.2)
    yield plane
    for resource in resources:
        plane.port.delete(resource, "kai-ray-gpu-environment")


def _created(
    plane: ControlPlane, containers: list[Object], early: list[Object] | None = None, **notes: str
) -> Object:
    annotations = {"gpu-fraction": "0.5"} | {k.replace("_", "-"): v for k, v in notes.items()}
    spec: dict[str, Any] = {"schedulerName": _SCHEDULER, "containers": _named("c", containers)}
    if early:
        spec["initContainers"] = _named("early", early)
    meta = {"generateName": "w-", "namespace": "default", "annotations": annotations}
    return plane.port.create(r.POD, {"metadata": meta, "spec": spec}, dry_run=True)


def _named(prefix: str, containers: list[Object]) -> list[Object]:
    return [{"name": f"{prefix}{i}", "image": "i", **c} for i, c in enumerate(containers)]


def _env(pod: Object, at: int, group: str = "containers") -> dict[str, str]:
    """Variables that refer to annotations, and those annotations."""
    found = pod["spec"][group][at].get("env") or ()
    return {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in found if e.get("valueFrom")}


EXPECTED = {
    e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in environment.by_annotations()
}


def test_the_first_container_is_wired(wired: ControlPlane) -> None:
    made = _created(wired, [{}, {}])
    assert _env(made, 0) == EXPECTED
    assert "env" not in made["spec"]["containers"][1]


@pytest.mark.parametrize(
    ("name", "group", "at"), [("c1", "containers", 1), ("early0", "initContainers", 0)]
)
def test_the_container_that_is_named_is_wired(
    wired: ControlPlane, name: str, group: str, at: int
) -> None:
    made = _created(wired, [{}, {}], [{}], gpu_fraction_container_name=name)
    assert _env(made, at, group) == EXPECTED
    assert "env" not in made["spec"]["containers"][0]


def test_what_a_container_sets_itself_stays(wired: ControlPlane) -> None:
    made = _created(wired, [{"env": _OWN}])
    env = made["spec"]["containers"][0]["env"]
    assert env[0] == _OWN[0]
    assert [e["name"] for e in env[1:]] == ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS"]


def test_a_webhook_that_comes_after_puts_config_maps_in_their_place(wired: ControlPlane) -> None:
    made = _created(wired, [{"env": [{"name": "A", "value": "1"}]}])
    gpu_env.add(made)
    env = made["spec"]["containers"][0]["env"]
    assert env[0]["name"] == "A"
    assert all("configMapKeyRef" in e["valueFrom"] for e in env[1:])
    assert len({e["name"] for e in env}) == len(env)


def test_pods_of_others_and_whole_gpus_are_left_alone(wired: ControlPlane) -> None:
    made = wired.port.create(
        r.POD,
        {
            "metadata": {
                "name": "w",
                "namespace": "default",
                "annotations": {"gpu-fraction": "0.5"},
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        dry_run=True,
    )
    assert "env" not in made["spec"]["containers"][0]

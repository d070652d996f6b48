"""Reviews in, verdicts out: what an API server asks and what it is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.admission import default_admission
from kai_ray.admission.review import BadReview, answer, json_patch
from kai_ray.cluster.memory import MemoryStore, install_defaults, patch_json
from kai_ray.cluster.port import AdmissionRequest, Object, Port
from tests.control import objects


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    install_defaults(made)
    return made


def _review(operation: str, plural: str, group: str = "", version: str = "v1", **request: Any):
    asked = {"group": group, "version": version, "resource": plural}
    body = {"uid": "u1", "operation": operation, "resource": asked, **request}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": body}).encode()


def _response(store: MemoryStore, raw: bytes) -> Object:
    found = json.loads(answer(raw, default_admission(), store))
    assert found["kind"] == "AdmissionReview"
    assert found["response"]["uid"] == "u1"
    return found["response"]


def test_an_edit_becomes_a_patch(store: MemoryStore) -> None:
    pod = objects.pod("p", scheduler="")
    del pod["metadata"]["namespace"]  # as a user may send it: the request names it
    raw = _review("CREATE", "pods", object=pod, oldObject=None, namespace="default")
    found = _response(store, raw)
    assert found["allowed"] and found["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(found["patch"]))
    assert patch == [{"op": "add", "path": "/spec/schedulerName", "value": "kai-scheduler"}]


def test_a_refusal_keeps_its_causes(store: MemoryStore) -> None:
    queue = objects.queue("q", "nowhere")
    raw = _review("CREATE", "queues", "scheduling.run.ai", "v2", object=queue)
    found = _response(store, raw)
    assert not found["allowed"] and found["status"]["code"] == 422
    assert found["status"]["details"]["causes"][0]["field"] == "spec.parentQueue"


def test_a_deletion_is_about_the_old_object(store: MemoryStore) -> None:
    queue = objects.queue("default-parent-queue")
    raw = _review("DELETE", "queues", "scheduling.run.ai", "v2", object=None, oldObject=queue)
    found = _response(store, raw)
    assert not found["allowed"] and "default-queue" in found["status"]["message"]


@pytest.mark.parametrize(
    "raw",
    [
        _review("CREATE", "pods", subResource="binding", object={"metadata": {}}),
        _review("CONNECT", "pods", object=None),
        _review("CREATE", "poems", "arts", object={"metadata": {"name": "ode"}}),
    ],
)
def test_what_is_not_ours_passes(store: MemoryStore, raw: bytes) -> None:
    assert _response(store, raw) == {"uid": "u1", "allowed": True}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"request": 1}',
        b'{"request": {"uid": "u"}}',
        _review("CREATE", "pods", object=None),
        _review("CREATE", "pods", object={"metadata": "none"}),
        b"\xff",
    ],
)
def test_what_is_no_review_is_said_so(store: MemoryStore, raw: bytes) -> None:
    with pytest.raises(BadReview):
        answer(raw, default_admission(), store)


def test_warnings_travel_with_a_refusal_and_are_short(store: MemoryStore) -> None:
    class Talker:
        def admit(self, request: AdmissionRequest, reader: Port) -> Object:
            request.warn("x" * 1000)
            return request.object

    queue = objects.queue("q", "nowhere")
    raw = _review("CREATE", "queues", "scheduling.run.ai", "v2", object=queue)
    found = json.loads(answer(raw, [Talker(), *default_admission()], store))["response"]
    assert not found["allowed"]
    assert found["warnings"] == ["x" * 256]


_VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("a/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(st.text("a/~b", max_size=2), _VALUES, max_size=4)


@given(before=_OBJECTS, after=_OBJECTS)
def test_a_patch_leads_from_the_one_to_the_other(before: Object, after: Object) -> None:
    patch = json_patch(before, after)
    assert patch_json.json_patch(json.loads(json.dumps(before)), patch) == after
    assert bool(patch) == (before != after)


def test_pods_that_share_gpus_get_their_variables(store: MemoryStore) -> None:
    pod = objects.pod("p", gpus=0, annotations={"gpu-fraction": "0.5"})
    found = _response(store, _review("CREATE", "pods", object=pod, namespace="default"))
    patch = json.loads(base64.b64decode(found["patch"]))
    made = patch_json.json_patch(pod, patch)
    named = {variable["name"] for variable in made["spec"]["containers"][0]["env"]}
    assert {"GPU_PORTION", "NVIDIA_VISIBLE_DEVICES"} <= named

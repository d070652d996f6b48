"""Who decides queue, priority, preemptibility and topology."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.api.durations import parse_duration
from kai_ray.podgrouper.fields import queue_of
from kai_ray.podgrouper.plan import PlanReader
from kai_ray.podgrouper.workload import Workload
from tests.podgrouper.planning import Object, gang, pods, workload

QUEUE = "kai.scheduler/queue"


def labelled(kind: str, value: str | None, **more: Any) -> Object:
    labels = {QUEUE: value} if value else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": kind, "labels": labels, **more}}


NATIVE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "native"}}
PLACES = ("top", "nearest", "pod", "native", "namespace")


@given(st.sets(st.sampled_from(PLACES)))
def test_the_queue_is_that_of_the_first_place_that_names_one(given_in: set[str]) -> None:
    def value(place: str) -> str | None:
        return place if place in given_in else None

    top, nearest = labelled("Top", value("top")), labelled("Near", value("nearest"))
    pod = labelled("Pod", value("pod"), namespace="ns")
    namespace = labelled("Namespace", value("namespace"))
    namespace["metadata"]["name"] = "ns"
    reader = PlanReader([namespace, NATIVE])
    w = Workload(top, (nearest, top), pod, reader)
    found = queue_of(w, (), (("spec.queue", value("native")),))
    wanted = next((p for p in PLACES if p in given_in), "default-queue")
    assert found.value == wanted
    assert found.source


def test_a_queue_field_that_names_no_queue_is_passed_over() -> None:
    w = Workload(labelled("Top", None), reader=PlanReader([NATIVE]))
    assert queue_of(w, (), (("spec.queue", "elsewhere"),)).value == "default-queue"


def test_a_priority_must_exist_to_count() -> None:
    labels = {"priorityClassName": "nobody-made-it"}
    job = workload("batch/v1", "Job", {"template": pods(labels={"priorityClassName": "build"})})
    job["metadata"]["labels"] = labels
    found = gang(job)
    assert (found.priority_class, found.preemptible) == ("build", False)
    assert "template" in found.sources["priorityClassName"]


@pytest.mark.parametrize(
    ("priority", "label", "preemptible"),
    [
        ("train", None, True),
        ("build", None, False),
        ("train", "non-preemptible", False),
        ("build", "preemptible", True),
        ("build", "sometimes", False),
    ],
)
def test_the_priority_decides_unless_a_label_does(
    priority: str, label: str | None, preemptible: bool
) -> None:
    labels = {"priorityClassName": priority}
    if label:
        labels["kai.scheduler/preemptibility"] = label
    found = gang(workload("batch/v1", "Job", {"template": pods()}, labels=labels))
    assert found.preemptible is preemptible
    assert bool(found.notes) is (label == "sometimes")


def test_kueues_topology_annotation_finds_the_topology_with_that_level() -> None:
    template = pods(annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})
    job = workload("batch/v1", "Job", {"template": template})

    def topology(name: str, *levels: str) -> Object:
        rows = [{"nodeLabel": level} for level in levels]
        made = workload("kai.scheduler/v1alpha1", "Topology", {"levels": rows})
        made["metadata"]["name"] = name
        return made

    assert gang(job).topology is None
    assert gang(job).notes
    found = gang(job, topology("z", "rack"), topology("b", "zone", "rack"), topology("a", "zone"))
    assert found.topology is not None
    assert (found.topology.name, found.topology.required) == ("b", "rack")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("-1s", -1.0),
        ("300ms", 0.3),
        ("0", 0.0),
        ("300", None),
        ("", None),
        ("5 m", None),
        ("m", None),
        ("99999999999h", None),
    ],
)
def test_durations_are_gos(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds

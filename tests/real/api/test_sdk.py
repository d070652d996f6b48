"""A pipeline's day with `import kai_ray` against a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import kai_ray
from kai_ray.cluster import kube
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound
from kai_ray.manager import Manager
from kai_ray.sdk.client import Client
from tests.real.control_plane import ControlPlane

QUEUE = "sdk-team"


@pytest.fixture
def kai(ours: ControlPlane, real_namespace: str) -> Iterator[Client]:
    port = kube.connect(str(ours.kubeconfig))
    with (
        Manager(port),
        kai_ray.connect(kubeconfig=ours.kubeconfig, namespace=real_namespace) as kai,
    ):
        kai.create_queue(QUEUE, gpu=4)
        yield kai
    port.close()
    with suppress(NotFound):
        ours.port.delete(r.QUEUE, QUEUE)


def batch(name: str, gpus: int, run_for: str = "") -> dict:
    """A Job of the user's; `kwok.kai/run-for` on its pods says how long they run."""
    obj = kai_ray.BatchJob(name, image="busybox", gpus=gpus).manifest()
    obj["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    if run_for:
        obj["spec"]["template"]["metadata"] = {"annotations": {"kwok.kai/run-for": run_for}}
    return obj


def test_a_day_with_the_sdk(kai: Client, gpu_nodes: Callable[..., list[str]]) -> None:
    (node,) = gpu_nodes(1, 4, prefix="sdk")
    with pytest.raises(kai_ray.InvalidManifest, match="parallelism"):
        kai.submit(batch("bad", 1) | {"spec": {"parallelism": -1}}, dry_run="server")

    held = kai.submit(batch("held", 4), queue=QUEUE).wait(60, until="started")
    assert held.nodes == (node,)
    again = kai.submit(batch("held", 4), queue=QUEUE)
    assert again == held, "the same manifest again is the same job"

    late = kai.submit(batch("late", 2, run_for="1s"), queue=QUEUE).wait(60, until="decided")
    assert (late.status, late.reason) == ("Waiting", "InsufficientGpu")
    assert "lacks" in str(late.explain())
    assert "Unschedulable" in {event.reason for event in late.events()}

    assert held.suspend(timeout=60).status == "Suspended"
    assert late.wait(60).status == "Succeeded"
    assert held.resume().wait(60, until="started").status == "Running"
    held.delete()
    assert held.status == "Deleted"
    late.delete()
    kai.queue(QUEUE).pause()
    assert kai.queue(QUEUE).state == "Paused"


def test_fields_that_others_set_are_not_taken_over_unasked(kai: Client, ours: ControlPlane) -> None:
    manifest = batch("shared", 1)
    manifest["spec"]["suspend"] = True
    job = kai.submit(manifest, queue=QUEUE)
    ours.port.patch(
        r.JOB,
        "shared",
        {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}},
        kai.namespace,
        patch_type="apply",
        field_manager="autoscaler",
        force=True,
    )
    with pytest.raises(kai_ray.Conflict, match=r"force=True"):
        kai.submit(manifest, queue=QUEUE)
    assert kai.submit(manifest, queue=QUEUE, force=True).manifest["spec"]["parallelism"] == 1
    job.delete()

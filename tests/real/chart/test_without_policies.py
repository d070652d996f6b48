"""Where the server has no mutating policies the webhook routes; then our pods need an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Object
from tests.real.chart.release import Release
from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def older(chart_plane: ControlPlane) -> Iterator[Release]:
    """As on a server before 1.36: the chart leaves its policies out."""
    made = Release(chart_plane)
    made.values["admission"]["policies"] = False
    made.install()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        made.uninstall()


def _pod(namespace: str, scheduler: str = "", **notes: str) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": "app"}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    notes = {key.replace("_", "-"): value for key, value in notes.items()}
    return {
        "metadata": {"generateName": "p-", "namespace": namespace, "annotations": notes},
        "spec": spec,
    }


def test_the_webhook_routes_wires_and_refuses(older: Release) -> None:
    port = older.plane.port
    managed, foreign = older.plane.namespace("managed"), older.plane.namespace("foreign")
    labels = {"metadata": {"labels": {"kai.scheduler/managed": "true"}}}
    port.patch(kinds.NAMESPACE, managed, labels)

    def made(pod: Object) -> Object:
        return port.create(kinds.POD, pod, dry_run=True)["spec"]

    assert made(_pod(managed))["schedulerName"] == "kai-scheduler"
    assert made(_pod(foreign))["schedulerName"] == "default-scheduler"
    env = made(_pod(managed, gpu_fraction="0.5"))["containers"][0]["env"]
    assert "GPU_PORTION" in {variable["name"] for variable in env}
    with pytest.raises(ApiError, match=r"such as 0\.5"):
        made(_pod(managed, gpu_fraction="2"))

    older.kill()
    for namespace, scheduler in ((foreign, ""), (foreign, "other"), (managed, "other")):
        found = made(_pod(namespace, scheduler))
        assert found["schedulerName"] == (scheduler or "default-scheduler")
    assert made(_pod(foreign, gpu_fraction="0.5"))["schedulerName"] == "default-scheduler"
    assert made(_pod(managed, "kai-scheduler"))["schedulerName"] == "kai-scheduler"
    # Neither may slip to another scheduler, or run without its variables: their makers try again.
    for pod in (_pod(managed), _pod(managed, "kai-scheduler", gpu_fraction="0.5")):
        with pytest.raises(ApiError, match="failed calling webhook"):
            made(pod)
    older.start()
    assert made(_pod(managed))["schedulerName"] == "kai-scheduler"

"""What the chart makes for the history, and that its process keeps one with its own rights."""

from __future__ import annotations

import pytest
import yaml

from kai_ray.cluster.port import Object
from kai_ray.history.file import HistoryError
from kai_ray.history.reader import HistoryReader
from tests.real.chart.release import CHART, NAME, NAMESPACE, Release
from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real


def pod_of(plane: ControlPlane, history: Object) -> Object:
    release = Release(plane)
    release.values = {"history": history}
    args = ("template", NAME, str(CHART), "-n", NAMESPACE, "--kube-version=1.36.0")
    made = yaml.safe_load_all(release.helm(*args, values=True))
    (deployment,) = (m for m in made if m and m["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


def volume(spec: Object) -> Object:
    (found,) = (v for v in spec["volumes"] if v["name"] == "history")
    return found


def test_it_is_kept_with_the_pod_or_in_a_claim(chart_plane: ControlPlane) -> None:
    spec = pod_of(chart_plane, {})
    (container,) = spec["containers"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert f"--state={mounts['history']}" in container["args"]
    assert volume(spec)["emptyDir"] == {"sizeLimit": "3Gi"}
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    claimed = pod_of(chart_plane, {"claim": "past"})
    assert volume(claimed)["persistentVolumeClaim"] == {"claimName": "past"}


def test_it_can_be_left_out(chart_plane: ControlPlane) -> None:
    assert "history" not in yaml.safe_dump(pod_of(chart_plane, {"enabled": False}))


def test_the_process_of_the_chart_writes_it(release: Release) -> None:
    reader = HistoryReader(release.state / "history.sqlite")

    def sampled() -> bool:
        try:
            return bool(reader.nodes(0).names)
        except HistoryError:
            return False

    assert release.process is not None
    release.process.wait_until(sampled, 30)
    assert len(reader.nodes(0).names) == 2

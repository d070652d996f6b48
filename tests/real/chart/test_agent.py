"""The node agent as the chart installs it: its command, account, rights and policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.kube import connect
from kai_ray.cluster.port import ApiError, Forbidden, NotFound, Object, Port
from tests.agent.stand_in import built, device
from tests.real.chart.release import CHART, NAME, NAMESPACE, HelmFailed, Release
from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

ACCOUNT = f"{NAME}-agent"


@pytest.fixture(scope="module")
def installed(chart_plane: ControlPlane) -> Iterator[Release]:
    made = Release(chart_plane, {"agent": {"enabled": True}})
    made.install()
    yield made
    made.uninstall()


def _nodes(plane: ControlPlane) -> list[str]:
    return sorted(n["metadata"]["name"] for n in plane.port.list(kinds.NODE).items)[:2]


def _kubeconfig(plane: ControlPlane, node: str, folder: Path) -> Path:
    """Under a token as the kubelet gives it to the agent's pod on that node."""
    name = f"agent-on-{node}"
    container = {"name": "agent", "image": "kai-ray"}
    spec = {"nodeName": node, "serviceAccountName": ACCOUNT, "containers": [container]}
    pod = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    uid = plane.port.create(kinds.POD, pod)["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    token = plane.port.raw("POST", path, asked)["status"]["token"]
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = folder / f"kubeconfig-{node}"
    file.write_text(json.dumps(config))
    return file


def _state(port: Port, node: str) -> Object | None:
    try:
        return port.get(kinds.GPU_NODE_STATE, node).get("status")
    except NotFound:
        return None


def test_the_daemonsets_command_tells_of_its_node_and_of_no_other(
    installed: Release, tmp_path: Path
) -> None:
    plane = installed.plane
    spec = plane.port.get(kinds.DAEMON_SET, ACCOUNT, NAMESPACE)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["hostPID"] and spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    own, other = _nodes(plane)
    (tmp_path / "driver.txt").write_text("driver 550\n" + device(0, util=40) + device(1))
    kubeconfig = _kubeconfig(plane, own, tmp_path)
    env = {e["name"]: e["value"] for e in container["env"] if "value" in e}
    env |= {
        "NODE_NAME": own,
        "KUBECONFIG": str(kubeconfig),
        "KAI_NVML_LIBRARY": str(built(tmp_path)),
        "KAI_STAND_IN": str(tmp_path / "driver.txt"),
    }
    command = Path(sys.executable).parent / container["command"][0]
    process = plane.run(command, container["args"], name="agent", env=env)
    try:
        process.wait_until(lambda: bool((_state(plane.port, own) or {}).get("devices")), 60)
    finally:
        process.stop()
    status = _state(plane.port, own)
    assert status is not None and [d["index"] for d in status["devices"]] == [0, 1]
    assert status["problem"] == ""
    port = connect(str(kubeconfig))
    _may_not(port, own, other)


def _may_not(port: Port, own: str, other: str) -> None:
    kind = kinds.GPU_NODE_STATE
    with pytest.raises(ApiError, match=f"agent of node {own} may not speak for"):
        port.create(kind, {"metadata": {"name": other}})
    with pytest.raises(Forbidden):
        port.patch(kinds.NODE, own, {"metadata": {"annotations": {"a": "b"}}})
    with pytest.raises(Forbidden):
        port.delete(kind, own)
    with pytest.raises(Forbidden):
        port.list(kinds.SECRET, NAMESPACE)


def test_the_state_goes_with_its_node(installed: Release) -> None:
    own = _nodes(installed.plane)[0]
    found = installed.plane.port.get(kinds.GPU_NODE_STATE, own)
    (owner,) = found["metadata"]["ownerReferences"]
    node = installed.plane.port.get(kinds.NODE, own)
    assert owner["uid"] == node["metadata"]["uid"]


def _rendered(plane: ControlPlane, agent: Object) -> str:
    release = Release(plane, {"agent": agent})
    args = ("template", NAME, str(CHART), "-n", NAMESPACE, "--kube-version=1.36.0")
    return release.helm(*args, values=True)


def test_it_reads_the_kubelets_file_only_where_it_is_asked_to(chart_plane: ControlPlane) -> None:
    shown = _rendered(chart_plane, {"enabled": True, "deviceCheckpoint": True})
    assert "--device-checkpoint=/device-plugins/kubelet_internal_checkpoint" in shown
    assert "runAsUser: 0" in shown
    assert "device-plugins" not in _rendered(chart_plane, {"enabled": True})
    assert "DaemonSet" not in _rendered(chart_plane, {})


def test_a_period_that_makes_no_sense_is_named(chart_plane: ControlPlane) -> None:
    with pytest.raises(HelmFailed, match="period"):
        _rendered(chart_plane, {"enabled": True, "period": 1})

"""The control plane that other tests stand on: it serves, keeps tests apart, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import connect
from kai_ray.cluster.port import Forbidden
from tests.real.control_plane import ControlPlane

KILLED_TEST = """
import sys, time
from pathlib import Path
from tests.real.control_plane import ControlPlane

plane = ControlPlane(Path(sys.argv[1]), isolated=True)
plane.start()
print(*(program.pid for program in plane.programs.running), flush=True)
time.sleep(600)
"""


def pod(name: str, namespace: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


def runs_soon(plane: ControlPlane, name: str, namespace: str) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if plane.port.get(r.POD, name, namespace)["status"]["phase"] == "Running":
            return True
        time.sleep(0.05)
    return False


def test_a_bound_pod_runs_on_a_fake_node(
    plane: ControlPlane, real_namespace: str, gpu_nodes: Callable[..., list[str]]
) -> None:
    (node,) = gpu_nodes(1, 4, prefix="bound")
    plane.port.create(r.POD, pod("a", real_namespace))
    plane.port.bind(real_namespace, "a", node)
    assert runs_soon(plane, "a", real_namespace)
    assert plane.port.get(r.NODE, node)["status"]["allocatable"]["nvidia.com/gpu"] == "4"


def test_users_may_do_what_their_roles_say(plane: ControlPlane, real_namespace: str) -> None:
    guest = connect(str(plane.kubeconfig_of("guest", ["visitors"])))
    try:
        with pytest.raises(Forbidden, match="guest"):
            guest.list(r.POD, real_namespace)
    finally:
        guest.close()


def test_an_isolated_plane_is_reached_and_answers_for_its_pods(
    isolated_plane: ControlPlane,
) -> None:
    """What listens on all addresses inside is what the API server finds at a pod's address."""
    plane = isolated_plane
    namespace = plane.namespace()
    plane.gpu_nodes(1, prefix="inside")
    serve = ["-u", "-m", "http.server", "8265"]
    web = plane.run(Path(sys.executable), serve, name="web", folder=plane.folder)
    web.wait_until(lambda: "Serving" in web.tail())
    plane.port.create(r.POD, pod("a", namespace))
    plane.port.bind(namespace, "a", "inside-0")
    assert runs_soon(plane, "a", namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/a:8265/proxy/tokens.csv"
    assert "system:masters" in plane.port.raw("GET", path)


def test_a_killed_test_leaves_no_program(tmp_path: Path, plane: ControlPlane) -> None:
    test = subprocess.Popen(
        [sys.executable, "-c", KILLED_TEST, str(tmp_path / "run")], stdout=subprocess.PIPE
    )
    assert test.stdout is not None
    pids = [int(word) for word in test.stdout.readline().split()]
    assert len(pids) == 5
    test.send_signal(signal.SIGKILL)
    test.wait()
    end = time.monotonic() + 10
    while any(map(_lives, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_lives, pids))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

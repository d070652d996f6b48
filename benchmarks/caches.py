"""Memory and CPU of `kai run` beside so many pods, on a real API server.

The pods are as operators make them (variables, probes, mounts), in gangs, and have their nodes:
what is measured is the price of knowing them. Needs `make parts`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.defaults import install_queues
from kai_ray.cluster.port import ApiError, Object, Write
from kai_ray.manager.install import install_definitions
from tests.real.control_plane import ControlPlane
from tests.real.programs import Program

OPTIONS: Mapping[str, Any] = {"pods": 10_000, "nodes": 200, "idle": 30}
_RUN = "from kai_ray.cli import main; main()"
_MIB = 1 << 20
GANG = 8


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """MiB and seconds: before the pods are known, when they are, and while nothing happens."""
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder) / "run", controllers=False, nodes=False, memory="2GiB")
        with plane:
            install_definitions(plane.port)
            install_queues(plane.port)
            empty = _start(plane, "empty")
            base = _settled(empty, options["idle"] / 3)["rss_mib"]
            empty.stop()
            _fill(plane, options)
            full = _start(plane, "full")
            return {
                "pods": options["pods"],
                "base_mib": base,
                **_settled(full, options["idle"]),
                "pod_bytes_on_the_wire": _wire_size(plane),
            }


def table(result: Mapping[str, Any]) -> str:
    return "\n".join(f"{name:24} {value}" for name, value in result.items())


def _start(plane: ControlPlane, name: str) -> Program:
    port = plane.free_port()
    args = ["-c", _RUN, "run", "--health", f"127.0.0.1:{port}", "-v"]
    program = plane.run(Path(sys.executable), args, name=name)
    program.wait_until(lambda: "working" in program.tail(500), 300)
    return program


def _settled(program: Program, idle_s: float) -> dict[str, float]:
    ready_cpu = program.cpu_s()
    for _ in range(12):  # statuses are written once
        before = program.cpu_s()
        time.sleep(10)
        if program.cpu_s() - before < 0.3:
            break
    begun = program.cpu_s()
    time.sleep(idle_s)
    return {
        "rss_mib": round(program.resident_bytes() / _MIB),
        "cpu_s_until_ready": round(ready_cpu, 2),
        "cpu_s_until_quiet": round(begun, 2),
        "idle_cpu_percent": round(100 * (program.cpu_s() - begun) / idle_s, 2),
    }


def _fill(plane: ControlPlane, options: Mapping[str, Any]) -> None:
    port, space = plane.port, plane.namespace()
    nodes = [{"metadata": {"name": f"n-{i}"}} for i in range(options["nodes"])]
    _all(plane, [Write(port.create, (r.NODE, node)) for node in nodes])
    groups = [_group(i, space) for i in range(0, options["pods"], GANG)]
    _all(plane, [Write(port.create, (r.POD_GROUP, group)) for group in groups])
    pods = [_pod(i, space, f"n-{i % options['nodes']}") for i in range(options["pods"])]
    _all(plane, [Write(port.create, (r.POD, pod)) for pod in pods])


def _all(plane: ControlPlane, writes: list[Write]) -> None:
    for answer in plane.port.batch(writes):
        if isinstance(answer, ApiError):
            raise answer


def _group(i: int, space: str) -> Object:
    spec = {"queue": "default-queue", "minMember": GANG}
    return {"metadata": {"name": f"g-{i // GANG}", "namespace": space}, "spec": spec}


def _pod(i: int, space: str, node: str) -> Object:
    check = {
        "exec": {"command": ["bash", "-c", "wget -q localhost:52365/api/local_raylet_healthz"]}
    }
    container = {
        "name": "worker",
        "image": "registry.example/ray:1",
        "command": ["/bin/bash", "-c", "--"],
        "args": ["ulimit -n 65536; ray start --block " + "--label=x " * 20],
        "env": [{"name": f"VARIABLE_{k}", "value": f"value {k} of {i}"} for k in range(20)],
        "livenessProbe": check,
        "readinessProbe": check,
        "ports": [{"containerPort": 8080, "name": "metrics"}],
        "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    labels = {f"ray.io/label-{k}": f"value-{k}" for k in range(6)}
    notes = {"pod-group-name": f"g-{i // GANG}"}
    meta = {"name": f"p-{i}", "namespace": space, "labels": labels, "annotations": notes}
    spec: Object = {
        "nodeName": node,
        "schedulerName": "kai-scheduler",
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return {"metadata": meta, "spec": spec}


def _wire_size(plane: ControlPlane) -> int:
    answer = plane.port._transport.send("GET", "/api/v1/pods", query={"limit": "50"})
    return len(answer) // 50

"""Pods created to pods bound on a real API server: ours, kube-scheduler and a bare binder.

All three get the same pods on the same nodes of the same server, one after the other. The bare
binder decides nothing: it binds what its watch shows to the next node, by the client and the Python
that ours has too, so it is the ceiling. kube-scheduler's limits on its own requests are lifted.
kwok plays the kubelets. Needs `make parts`.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.e2e_load import Load, Timing, empty
from tests.real.control_plane import API_SERVER, CORE, ETCD, ControlPlane
from tests.real.programs import Program

OPTIONS: dict[str, Any] = {"nodes": 100, "pods": 800, "contenders": "bare,kube-scheduler,kai"}
#: Real programs that it takes.
PROGRAMS = (*CORE, "kube-scheduler")
WARM_UP = 8
LIMIT_S = 300.0
KAI = "from kai_ray.cli import main; main()"


@dataclass(frozen=True)
class Contender:
    """Who binds pods with this `schedulerName`, and how it is started."""

    name: str
    scheduler_name: str

    def start(self, plane: ControlPlane) -> Program:
        python = Path(sys.executable)
        if self.name == "kube-scheduler":
            address = ["--bind-address=127.0.0.1", f"--secure-port={plane.free_port()}"]
            limits = ["--kube-api-qps=5000", "--kube-api-burst=10000"]
            config = [f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false"]
            return plane.run("kube-scheduler", [*config, *address, *limits])
        if self.name == "kai":
            flags = ["--install-crds", "--health", ""]
            return plane.run(python, ["-c", KAI, "run", *flags], name="kai")
        return plane.run(python, ["-m", "benchmarks.e2e_binder", self.scheduler_name], name="bare")


CONTENDERS = {
    "bare": Contender("bare", "bare-binder"),
    "kube-scheduler": Contender("kube-scheduler", "default-scheduler"),
    "kai": Contender("kai", "kai-scheduler"),
}


@dataclass(frozen=True)
class Row:
    """One contender's figures. CPU seconds are those from the first pod created to the last one
    bound; latencies are from the answer to a pod's creation to the event that shows it bound."""

    contender: str
    bound: int
    pods_per_s: float
    p50_ms: float
    p99_ms: float
    create_s: float
    cpu_s: float
    rss_mb: float
    api_server_cpu_s: float
    etcd_cpu_s: float


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """Every contender on one control plane; a JSON object."""
    chosen = [CONTENDERS[name] for name in options["contenders"].split(",")]
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Path(folder) / "run", memory="2GiB") as plane,
    ):
        plane.gpu_nodes(options["nodes"], prefix="bench", labels={"bench": "true"})
        rows = [_row(plane, contender, options["pods"]) for contender in chosen]
        version = plane.port.raw("GET", "/version")["gitVersion"]
    return {
        "benchmark": "e2e",
        "sizes": {"nodes": options["nodes"], "gpus": 8, "pods": options["pods"]},
        "machine": _machine(),
        "kubernetes": version,
        "rows": [asdict(row) for row in rows],
    }


def _row(plane: ControlPlane, contender: Contender, pods: int) -> Row:
    program = contender.start(plane)
    name = contender.scheduler_name
    try:
        namespace = plane.namespace(f"warm-{contender.name}")
        _bind_all(plane, program, Load(plane.port, namespace, name, WARM_UP))
        empty(plane.port, namespace)
        namespace = plane.namespace(f"e2e-{contender.name}")
        parts = (program, plane.program(API_SERVER), plane.program(ETCD))
        before = [part.cpu_s() for part in parts]
        timing = _bind_all(plane, program, Load(plane.port, namespace, name, pods))
        cpu, api_server, etcd = (
            round(part.cpu_s() - at, 2) for part, at in zip(parts, before, strict=True)
        )
        resident = program.resident_bytes()
        empty(plane.port, namespace)
    finally:
        program.stop()
    return Row(
        contender=contender.name,
        bound=timing.bound,
        pods_per_s=round(timing.pods_per_s, 1),
        p50_ms=round(timing.percentile_ms(50), 1),
        p99_ms=round(timing.percentile_ms(99), 1),
        create_s=round(timing.create_s, 2),
        cpu_s=cpu,
        rss_mb=round(resident / 1e6, 1),
        api_server_cpu_s=api_server,
        etcd_cpu_s=etcd,
    )


def _bind_all(plane: ControlPlane, program: Program, load: Load) -> Timing:
    with load:
        load.create()
        end = time.monotonic() + LIMIT_S
        while not load.done() and time.monotonic() < end and program.running():
            time.sleep(0.02)
        if not program.running():
            raise SystemExit(f"{program.name} ended:\n{program.tail(40)}")
        return load.timing()


def _machine() -> dict[str, Any]:
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def table(result: dict[str, Any]) -> str:
    sizes, machine = result["sizes"], result["machine"]
    head = (
        f"e2e: {sizes['nodes']} nodes of {sizes['gpus']} GPUs, {sizes['pods']} pods of one GPU; "
        f"Kubernetes {result['kubernetes']} on {machine['cores']} cores of {machine['cpu']}"
    )
    columns = list(result["rows"][0])
    lines = [columns, *([str(row[c]) for c in columns] for row in result["rows"])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(v.rjust(w) for v, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([head, *text])

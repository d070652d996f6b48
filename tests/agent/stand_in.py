"""A driver that says what a test wants: the stand-in library, the processes, the kubelet's file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kai_ray.agent.agent import Agent, AgentConfig
from kai_ray.agent.library import LIBRARY
from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object

SOURCE = Path(__file__).with_name("nvml.c")
NODE = "gpu-0"
CONTAINER = "c" * 64


def built(folder: Path) -> Path:
    """The library. Skips where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the stand-in for the NVIDIA driver cannot be built")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


def device(index: int, *, util: int = 0, used: int = 0, mig: int = 0, lost: int = 0) -> str:
    bus = f"00000000:{0x1B + index:02X}:00.0"
    return (
        f"device {index} GPU-{index} 81559 {used} {util} 512000 {bus} {mig} {lost}\n"
        f"name {index} NVIDIA H100 80GB HBM3\n"
    )


class Machine:
    """One node with its driver, its processes and a cluster around it."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.proc.mkdir()
        self.sys.mkdir()
        self.file = folder / "driver.txt"
        self.checkpoint = folder / "kubelet_internal_checkpoint"
        monkeypatch.setenv(LIBRARY, str(library))
        monkeypatch.setenv("KAI_STAND_IN", str(self.file))
        self.says(device(0), device(1))
        self.store = MemoryStore()
        install_defaults(self.store)
        self.store.create(kinds.NODE, {"metadata": {"name": NODE}, "spec": {}})
        self.now = 1_800_000_000.0
        self.agents: list[Agent] = []

    def says(self, *lines: str, driver: str = "550.54.15") -> None:
        """What the driver says from now on."""
        text = f"driver {driver}\n" if driver else ""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text + "".join(line.rstrip("\n") + "\n" for line in lines))
        os.replace(fresh, self.file)

    def process(self, pid: int, cgroup: str) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(cgroup)

    def numa(self, index: int, node: int) -> None:
        folder = self.sys / f"bus/pci/devices/0000:{0x1B + index:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")

    def kubelet_gave(self, given: dict[str, list[str]]) -> None:
        entries = [
            {"PodUID": uid, "ContainerName": "main", "ResourceName": L.NVIDIA_GPU,
             "DeviceIDs": {"0": devices}}
            for uid, devices in given.items()
        ]  # fmt: skip
        data = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
        self.checkpoint.write_text(json.dumps(data))

    def pod(self, name: str, devices: list[str] | None = None, gpus: int = 1) -> str:
        """A pod that runs here; its UID. `devices`: what the kubelet writes into its status."""
        container = {
            "name": "main",
            "image": "app",
            "resources": {"limits": {L.NVIDIA_GPU: gpus}} if gpus else {},
        }
        meta = {"name": name, "namespace": "default"}
        spec = {"nodeName": NODE, "containers": [container]}
        made = self.store.create(kinds.POD, {"metadata": meta, "spec": spec})
        status: Object = {"name": "main", "containerID": f"containerd://{CONTAINER}"}
        if devices is not None:
            held = [{"resourceID": d, "health": "Healthy"} for d in devices]
            status["allocatedResourcesStatus"] = [{"name": L.NVIDIA_GPU, "resources": held}]
        patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
        self.store.patch(kinds.POD, name, patch, "default", subresource="status")
        return made["metadata"]["uid"]

    def cgroup_of(self, uid: str) -> str:
        part = uid.replace("-", "_")
        return (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{part}.slice/"
            f"cri-containerd-{CONTAINER}.scope\n"
        )

    def agent(self, **config: object) -> Agent:
        made = Agent(
            AgentConfig(NODE, proc=self.proc, sys=self.sys, **config),  # type: ignore[arg-type]
            self.store,
            now=lambda: self.now,
        )
        self.agents.append(made)
        return made

    def after(self, agent: Agent, *, seconds: float = 30.0, looks: int = 2) -> Object:
        """The status that is told after another period."""
        for _ in range(looks - 1):
            agent.look()
        self.now += seconds
        agent.turn()
        return self.told()

    def told(self) -> Object:
        return self.store.get(kinds.GPU_NODE_STATE, NODE)["status"]

    def close(self) -> None:
        for agent in self.agents:
            agent.close()
        self.store.close()

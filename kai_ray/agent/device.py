"""One GPU: what is fixed about it, and its use summed up between two reports."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kai_ray.agent.library import Library, Odd

_MIB = 2**20
_MOST_LINKS_AGE_S = 600.0
_PROFILE = re.compile(r"\bMIG (\S+)$")


@dataclass(slots=True)
class Running:
    """A process on the device. `part` is of the device's time; None where nobody says."""

    pid: int
    used_mib: int | None
    instance: int | None  # of a device that is partitioned
    part: float | None = None


@dataclass(slots=True)
class Instance:
    """A part of a partitioned device."""

    uuid: str
    profile: str
    number: int | None
    memory_mib: int | None
    used_mib: int | None


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    def take(self) -> float | None:
        found = self.total / self.count if self.count else None
        self.total, self.count = 0.0, 0
        return found


@dataclass(slots=True)
class Device:
    index: int
    handle: Any
    uuid: str
    model: str = ""
    memory_mib: int | None = None
    numa_node: int | None = None
    links: list[int] = field(default_factory=list[int])
    _busy: _Mean = field(default_factory=_Mean)
    _parts: dict[int, _Mean] = field(default_factory=dict[int, _Mean])
    _looks: int = 0  # since the last report, in which processes were told of
    _samples_since: int = 0  # timestamps of the driver, microseconds
    _parts_since: int = 0

    # ------------------------------------------------------------------ between two reports

    def look(self, library: Library) -> None:
        """Adds up what the device has done since. Raises NoDriver, Lost."""
        self._look_at_device(library)
        self._look_at_processes(library)

    def _look_at_device(self, library: Library) -> None:
        nvml = library.nvml
        kind = nvml.NVML_GPU_UTILIZATION_SAMPLES
        found = library.try_(nvml.nvmlDeviceGetSamples, self.handle, kind, self._samples_since)
        fresh = [s for s in (found[1] if found else ()) if s.timeStamp > self._samples_since]
        if fresh:
            for sample in fresh:
                self._busy.add(min(sample.sampleValue.uiVal, 100) / 100)
            self._samples_since = max(s.timeStamp for s in fresh)
            return
        rates = library.try_(nvml.nvmlDeviceGetUtilizationRates, self.handle)
        if rates is not None:
            self._busy.add(min(rates.gpu, 100) / 100)

    def _look_at_processes(self, library: Library) -> None:
        """Of a process that has done nothing the driver says nothing."""
        nvml = library.nvml
        try:
            found = library.nvml.nvmlDeviceGetProcessUtilization(self.handle, self._parts_since)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS):
                self._looks += 1
            return
        self._looks += 1
        by_pid: dict[int, _Mean] = {}
        for sample in found:
            if sample.timeStamp > self._parts_since and sample.pid:
                by_pid.setdefault(sample.pid, _Mean()).add(min(sample.smUtil, 100) / 100)
        for pid, mean in by_pid.items():
            self._parts.setdefault(pid, _Mean()).add(mean.take() or 0.0)
        self._parts_since = max((s.timeStamp for s in found), default=self._parts_since)

    # ------------------------------------------------------------------ the report

    def utilization(self) -> float | None:
        """The mean since it was asked last."""
        return self._busy.take()

    def power_watts(self, library: Library) -> int | None:
        milliwatts = library.try_(library.nvml.nvmlDeviceGetPowerUsage, self.handle)
        return None if milliwatts is None else round(milliwatts / 1000)

    def used_mib(self, library: Library) -> int | None:
        found = library.try_(library.nvml.nvmlDeviceGetMemoryInfo, self.handle)
        return None if found is None else int(found.used // _MIB)

    def processes(self, library: Library, instances: list[Instance]) -> list[Running] | None:
        """What runs on it, with its part of the time since it was asked last. Raises Odd.

        None where the driver does not tell, or not us.
        """
        nvml = library.nvml
        found: dict[int, Running] = {}
        computing = library.ask(nvml.nvmlDeviceGetComputeRunningProcesses, self.handle)
        if computing is None:
            return None
        drawing = library.try_(nvml.nvmlDeviceGetGraphicsRunningProcesses, self.handle)
        for told in (computing, drawing or ()):
            for process in told:
                used = process.usedGpuMemory
                size = int(used // _MIB) if used is not None else None
                number = getattr(process, "gpuInstanceId", None)
                if number in (None, 0xFFFFFFFF):
                    number = None
                found[process.pid] = Running(process.pid, size, number if instances else None)
        if self._looks and not instances:
            for pid, running in found.items():
                mean = self._parts.get(pid)
                # It did nothing in the looks that do not name it.
                running.part = mean.total / self._looks if mean is not None else 0.0
        self._parts.clear()
        self._looks = 0
        return list(found.values())

    def instances(self, library: Library) -> list[Instance]:
        nvml = library.nvml
        mode = library.try_(nvml.nvmlDeviceGetMigMode, self.handle)
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return []
        found: list[Instance] = []
        for i in range(library.try_(nvml.nvmlDeviceGetMaxMigDeviceCount, self.handle) or 0):
            part = library.try_(nvml.nvmlDeviceGetMigDeviceHandleByIndex, self.handle, i)
            if part is None:
                continue
            memory = library.try_(nvml.nvmlDeviceGetMemoryInfo, part)
            name = str(library.try_(nvml.nvmlDeviceGetName, part) or "")
            profile = _PROFILE.search(name)
            found.append(
                Instance(
                    str(library.try_(nvml.nvmlDeviceGetUUID, part) or f"{self.uuid}/{i}"),
                    profile[1] if profile else "",
                    library.try_(nvml.nvmlDeviceGetGpuInstanceId, part),
                    int(memory.total // _MIB) if memory is not None else None,
                    int(memory.used // _MIB) if memory is not None else None,
                )
            )
        return found


def found_at(library: Library, index: int, sysfs: Path) -> Device:
    """Raises NoDriver, Lost, Odd."""
    nvml = library.nvml
    handle = library.ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        raise Odd(f"device {index} may not be looked at")
    memory = library.try_(nvml.nvmlDeviceGetMemoryInfo, handle)
    return Device(
        index,
        handle,
        str(library.ask(nvml.nvmlDeviceGetUUID, handle) or f"GPU-of-index-{index}"),
        str(library.try_(nvml.nvmlDeviceGetName, handle) or ""),
        int(memory.total // _MIB) if memory is not None else None,
        _numa_node(library, handle, sysfs),
    )


def _numa_node(library: Library, handle: Any, sysfs: Path) -> int | None:
    pci = library.try_(library.nvml.nvmlDeviceGetPciInfo, handle)
    if pci is None:
        return None
    raw = pci.busId
    text = (raw.decode() if isinstance(raw, bytes) else str(raw)).lower()
    domain, _, rest = text.partition(":")
    try:
        path = sysfs / "bus/pci/devices" / f"{int(domain, 16):04x}:{rest}" / "numa_node"
        found = int(path.read_text())
    except (OSError, ValueError):
        return None
    return found if found >= 0 else None  # -1: the machine has but one, or does not say


def link(library: Library, devices: list[Device]) -> None:
    """Which devices reach which by NVLink, by themselves or through a switch."""
    nvml = library.nvml
    reaches: dict[int, list[int]] = {device.index: [] for device in devices}
    for at, one in enumerate(devices):
        for other in devices[at + 1 :]:
            kind = nvml.NVML_P2P_CAPS_INDEX_NVLINK
            state = library.maybe(nvml.nvmlDeviceGetP2PStatus, one.handle, other.handle, kind)
            if state == nvml.NVML_P2P_STATUS_OK:
                reaches[one.index].append(other.index)
                reaches[other.index].append(one.index)
    for device in devices:
        device.links = sorted(reaches[device.index])

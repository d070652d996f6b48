"""All GPUs of this node: found, looked at, and told of. Whatever fails, the rest is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kai_ray.agent import device as devices_of
from kai_ray.agent.device import Device, Instance, Running
from kai_ray.agent.health import Xids, memory_problem, said
from kai_ray.agent.library import Library, Lost, NoDriver, Odd
from kai_ray.api.gpu_state import (
    MOST_DEVICES,
    MOST_INSTANCES,
    MOST_PROCESSES,
    GpuDevice,
    GpuProcess,
    MigInstance,
)

log = logging.getLogger(__name__)

#: Topology changes when a link fails or a machine is rebuilt: it is read again now and then.
_RELINK_LOOKS = 60

#: A process -> how it is told of; None: it has ended.
Whose = Callable[[Running], GpuProcess | None]
#: The UUID of a device -> UIDs of the pods that were given it; None: not known.
Given = Callable[[str], list[str] | None]


class GpuNode:
    """`look` often, `devices` for a report. Both raise NoDriver; `open` again after that."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self.driver = ""
        self._sysfs = sysfs
        self._library: Library | None = None
        self._devices: dict[int, Device] = {}
        self._problems: dict[int, str] = {}  # devices that do not answer
        self._instances: dict[int, list[Instance]] = {}  # by device, as of the last report
        self._xids: Xids | None = None
        self._looks = 0

    def open(self) -> int:
        """Finds the devices; how many there are. Those known before and gone stay known."""
        self.close()
        library = self._library = Library()
        nvml = library.nvml
        try:
            self.driver = str(library.try_(nvml.nvmlSystemGetDriverVersion) or "")
            count = min(library.ask(nvml.nvmlDeviceGetCount) or 0, MOST_DEVICES)
        except (Lost, Odd) as error:
            raise NoDriver(str(error)) from None
        self._problems = {i: "it is not there any more" for i in self._devices if i >= count}
        for index in range(count):
            self._find(library, index)
        present = [d for i, d in sorted(self._devices.items()) if i not in self._problems]
        devices_of.link(library, present)
        self._xids = Xids(library, {d.index: d.handle for d in present})
        return count

    def _find(self, library: Library, index: int) -> None:
        try:
            self._devices[index] = devices_of.found_at(library, index, self._sysfs)
        except (Lost, Odd) as error:
            self._problems[index] = str(error)
            unknown = Device(index, None, f"GPU-of-index-{index}")
            self._devices.setdefault(index, unknown)

    def close(self) -> None:
        if self._library is not None:
            if self._xids is not None:
                self._xids.close()
            self._library.close()
        self._library = self._xids = None

    # ------------------------------------------------------------------ between two reports

    def look(self) -> None:
        library = self._opened()
        if self._xids is not None:
            self._xids.take()
        self._looks += 1
        if self._looks % _RELINK_LOOKS == 0:
            devices_of.link(library, self._present())
        for device in self._present():
            try:
                device.look(library)
            except Lost as error:
                self._lose(device, str(error))

    def _present(self) -> list[Device]:
        return [d for i, d in sorted(self._devices.items()) if i not in self._problems]

    def _lose(self, device: Device, why: str) -> None:
        log.error("GPU %d (%s): %s", device.index, device.uuid, why)
        self._problems[device.index] = why

    def _opened(self) -> Library:
        if self._library is None:
            raise NoDriver("the NVIDIA driver has not been asked yet")
        return self._library

    # ------------------------------------------------------------------ the report

    def names(self) -> dict[str, str]:
        """What pods and kubelets may call a device or instance, and its UUID."""
        found = {str(device.index): device.uuid for device in self._devices.values()}
        found |= {device.uuid: device.uuid for device in self._devices.values()}
        return found | {one.uuid: one.uuid for of in self._instances.values() for one in of}

    def devices(self, whose: Whose, given: Given) -> list[GpuDevice]:
        """`given` is asked after `names` knows all there is."""
        library = self._opened()
        self._instances = {d.index: self._parts_of(library, d) for d in self._present()}
        return [self._told(library, device, whose, given) for _, device in self._in_order()]

    def _parts_of(self, library: Library, device: Device) -> list[Instance]:
        try:
            return device.instances(library)[:MOST_INSTANCES]
        except Lost as error:
            self._lose(device, str(error))
            return []

    def _in_order(self) -> list[tuple[int, Device]]:
        return sorted(self._devices.items())

    def _told(self, library: Library, device: Device, whose: Whose, given: Given) -> GpuDevice:
        made = GpuDevice(
            uuid=device.uuid,
            index=device.index,
            model=device.model,
            memory_mib=device.memory_mib,
            numa_node=device.numa_node,
            links=device.links,
            pods=given(device.uuid),
        )
        if device.index not in self._problems:
            try:
                self._fill(library, device, made, whose, given)
            except Lost as error:
                self._lose(device, str(error))
            except Odd as error:
                made.problem = f"not all of it could be read: {error}"
        self._judge(device, made)
        return made

    def _fill(
        self, library: Library, device: Device, made: GpuDevice, whose: Whose, given: Given
    ) -> None:
        usable, problem = memory_problem(library, device.handle)
        made.healthy, made.problem = usable, problem
        made.utilization = _rounded(device.utilization())
        made.used_mib = device.used_mib(library)
        made.power_watts = device.power_watts(library)
        instances = self._instances.get(device.index, [])
        if instances:
            made.utilization = None  # of a partitioned device the driver gives no figure
        try:
            running = device.processes(library, instances)
        except Odd as error:
            running, made.problem = None, f"not all of it could be read: {error}"
        if not instances or running is None:
            made.processes = None if running is None else _by_container(running, whose)
        else:
            made.processes = []
        for instance in instances:
            mine = [r for r in running or () if r.instance == instance.number]
            made.mig_instances.append(_instance(instance, _by_container(mine, whose)))
        if made.pods is not None:
            held = [given(instance.uuid) or [] for instance in instances]
            made.pods = sorted({uid for uids in [made.pods, *held] for uid in uids})

    def _judge(self, device: Device, made: GpuDevice) -> None:
        """What is known to be wrong with it goes before what could not be read."""
        xid = self._xids.bad.get(device.index) if self._xids is not None else None
        lost = self._problems.get(device.index)
        if lost is not None:
            made.healthy, made.problem = False, f"it does not answer: {lost}"
            made.utilization = made.used_mib = made.power_watts = None
            made.processes, made.mig_instances = None, []
        if xid is not None:
            made.healthy, made.problem = False, said(xid)


def _instance(instance: Instance, processes: list[GpuProcess]) -> MigInstance:
    return MigInstance(
        instance.uuid, instance.profile, instance.memory_mib, instance.used_mib, processes
    )


def _by_container(running: list[Running], whose: Whose) -> list[GpuProcess]:
    """One entry a container, the largest first where there are too many."""
    found: dict[tuple[str, str], GpuProcess] = {}
    for process in running:
        one = whose(process)
        if one is None:
            continue
        known = found.get((one.uid, one.container))
        if known is None:
            found[one.uid, one.container] = one
            continue
        known.used_mib = _sum(known.used_mib, one.used_mib)
        known.utilization = _sum(known.utilization, one.utilization)
    for one in found.values():
        if one.utilization is not None:
            one.utilization = _rounded(min(one.utilization, 1.0))
    ordered = sorted(found.values(), key=lambda p: (-(p.used_mib or 0), p.uid, p.container))
    return sorted(ordered[:MOST_PROCESSES], key=lambda p: (p.namespace, p.pod, p.container))


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

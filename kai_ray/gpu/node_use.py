"""What a GPUNodeState says, read once per change: devices, who holds them, how much they do.

What cannot be read is said, not guessed: a figure that is missing is None, and an object that makes
no sense is a node with a problem and without devices.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kai_ray.api.gpu_state import GpuDevice, GPUNodeStatus, GpuProcess
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object

#: In the place of a container: a process of the node itself, and so of no pod.
HOST = "(host)"


class Use(NamedTuple):
    """One pod on one device. `part` is of the device's time; None = the driver does not say."""

    uid: str
    part: float | None = None
    used_mib: int | None = None
    namespace: str = ""
    pod: str = ""
    container: str = ""


class Mig(NamedTuple):
    uuid: str
    profile: str
    memory_mib: int | None
    used_mib: int | None
    uses: tuple[Use, ...] = ()


class DeviceUse(NamedTuple):
    uuid: str
    index: int
    model: str = ""
    memory_mib: int | None = None
    used_mib: int | None = None
    utilization: float | None = None
    power_watts: int | None = None
    healthy: bool = True
    problem: str = ""
    numa_node: int | None = None
    links: tuple[int, ...] = ()
    pods: tuple[str, ...] | None = None  # UIDs of who was given it; None = nobody says
    uses: tuple[Use, ...] = ()  # what runs on it, MIG instances included
    mig: tuple[Mig, ...] = ()
    blind: bool = False  # it is not known what runs on it

    @property
    def holders(self) -> frozenset[str]:
        """UIDs of pods that are known to have it."""
        return frozenset((*(self.pods or ()), *(use.uid for use in self.uses if use.uid)))

    @property
    def strangers(self) -> bool:
        """Whether something runs on it, or may, of which nobody knows whose it is."""
        return self.blind or any(not use.uid and use.container != HOST for use in self.uses)


class NodeUse(NamedTuple):
    """A node as its agent saw it. `observed_s` 0: it has never said anything."""

    name: str
    observed_s: float = 0.0
    period_s: float | None = None
    source: str = ""
    driver: str = ""
    problem: str = ""
    devices: tuple[DeviceUse, ...] = ()

    @property
    def mapped(self) -> bool:
        """Whether a pod that is seen on no device uses none: all that runs has a pod's name.

        What runs unnamed on a device that was given to somebody is theirs.
        """
        return all(d.pods or not d.strangers for d in self.devices)


def read(state: Object) -> NodeUse:
    name = state["metadata"]["name"]
    try:
        status = msgspec.convert(state.get("status") or {}, GPUNodeStatus)
        observed = epoch(status.observed_at) if status.observed_at else 0.0
    except (msgspec.ValidationError, ValueError) as error:
        return NodeUse(name, problem=f"what its agent wrote cannot be read: {error}")
    return NodeUse(
        name,
        observed,
        status.period_seconds,
        status.source,
        status.driver,
        status.problem,
        tuple(_device(device) for device in status.devices),
    )


def _device(device: GpuDevice) -> DeviceUse:
    mig = tuple(
        Mig(i.uuid, i.profile, i.memory_mib, i.used_mib, tuple(map(_use, i.processes)))
        for i in device.mig_instances
    )
    return DeviceUse(
        device.uuid,
        device.index,
        device.model,
        device.memory_mib,
        device.used_mib,
        device.utilization,
        device.power_watts,
        device.healthy,
        device.problem,
        device.numa_node,
        tuple(device.links),
        None if device.pods is None else tuple(device.pods),
        (*map(_use, device.processes or ()), *(use for one in mig for use in one.uses)),
        mig,
        device.processes is None,
    )


def _use(process: GpuProcess) -> Use:
    return Use(
        process.uid,
        process.utilization,
        process.used_mib,
        process.namespace,
        process.pod,
        process.container,
    )

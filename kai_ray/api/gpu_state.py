"""GPUNodeState: what the GPUs of one node are doing, as its agent saw it last.

Cluster-scoped and named after its node. Written by the node agent, or by the simulated nodes from a
model; read by everything that shows or judges the use of GPUs. Memory in MiB (2^20 bytes),
utilisation as a part of 1 and the mean of the period, times as RFC 3339. A figure that the driver
did not give is left out (null): it is never written as 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from .core import ObjectMeta
from .kai import Count, Name, Text

#: More devices, processes and instances than any machine has; the rest is left out.
MOST_DEVICES = 128
MOST_PROCESSES = 64
MOST_INSTANCES = 16

Part = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Word = Annotated[str, Meta(max_length=253)]


class GpuProcess(Struct, rename="camel", gc=False, omit_defaults=True):
    """All processes of one container on one device.

    Without a uid they are the node's own (container "(host)"), or it is not known whose they are.
    """

    namespace: Name = ""
    pod: Name = ""
    uid: Word = ""
    container: Word = ""
    used_mib: Count | None = field(default=None, name="usedMiB")
    utilization: Part | None = None


class MigInstance(Struct, rename="camel", gc=False, omit_defaults=True):
    uuid: Word
    profile: Word = ""
    memory_mib: Count | None = field(default=None, name="memoryMiB")
    used_mib: Count | None = field(default=None, name="usedMiB")
    processes: Annotated[list[GpuProcess], Meta(max_length=MOST_PROCESSES)] = field(
        default_factory=list[GpuProcess]
    )


class GpuDevice(Struct, rename="camel", gc=False):
    uuid: Word
    index: Count
    model: Word = ""
    memory_mib: Count | None = field(default=None, name="memoryMiB")
    used_mib: Count | None = field(default=None, name="usedMiB")
    utilization: Part | None = None
    power_watts: Count | None = None
    healthy: bool = True
    problem: Text = ""
    numa_node: Count | None = None
    links: Annotated[list[Count], Meta(max_length=MOST_DEVICES)] = field(
        default_factory=list[Count]
    )
    mig_instances: Annotated[list[MigInstance], Meta(max_length=MOST_INSTANCES)] = field(
        default_factory=list[MigInstance]
    )
    pods: Annotated[list[Word], Meta(max_length=MOST_PROCESSES)] | None = None
    processes: Annotated[list[GpuProcess], Meta(max_length=MOST_PROCESSES)] | None = None


class GPUNodeStatus(Struct, rename="camel", gc=False):
    observed_at: Annotated[str, Meta(max_length=64)] = ""
    period_seconds: Seconds | None = None
    source: Literal["nvml", "simulated", ""] = ""
    driver: Word = ""
    problem: Text = ""
    devices: Annotated[list[GpuDevice], Meta(max_length=MOST_DEVICES)] = field(
        default_factory=list[GpuDevice]
    )


class GPUNodeState(Struct, rename="camel", gc=False):
    """What the GPUs of one node are doing; the object has the name of the node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: GPUNodeStatus = field(default_factory=GPUNodeStatus)

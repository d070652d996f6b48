"""The description of an embedded cluster: `cluster.yaml`, or the short form `4x8`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from kai_ray.api import labels as L
from kai_ray.api import quantity
from kai_ray.cluster.port import Object

from .run_model import FailureModel, RunModel

ZONE = "topology.kubernetes.io/zone"
RACK = "cloud.provider.com/topology-rack"
NVLINK_DOMAIN = "nvidia.com/gpu.clique"
MOST_NODES = 100_000
_SHORT = re.compile(r"^(\d+)x(\d+)$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
#: Devices of one ResourceSlice at most (Kubernetes).
MOST_DEVICES = 128
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_NAME = re.compile(r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
#: Resources that a pool names by fields of its own.
_OWN_FIELDS = {"cpu": "cpu", "memory": "memory", "pods": "pods", L.NVIDIA_GPU: "gpus"}


class ClusterFileError(ValueError):
    """What is wrong in a cluster description: names the field and how to mend it."""


class _Struct(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True
):
    pass


class Distribution(_Struct, frozen=True):
    """Seconds. `spread` is the half-width of `uniform` and the sigma of `lognormal`."""

    kind: Literal["constant", "uniform", "exponential", "lognormal"] = "constant"
    mean_seconds: float = 60.0
    spread: float = 0.0

    def model(self) -> RunModel:
        return RunModel(self.kind, self.mean_seconds, self.spread)


class Failures(_Struct, frozen=True):
    """Mean seconds between failures of one node, and how long until it is back."""

    mtbf_seconds: float
    repair_seconds: float = 300.0

    def model(self) -> FailureModel:
        return FailureModel(self.mtbf_seconds, self.repair_seconds)


class Level(_Struct, frozen=True):
    """A topology label: `nodes` consecutive nodes share a value (`{i}`, `{pool}` in `name`)."""

    label: str
    nodes: int
    name: str = "{i}"


class Taint(_Struct, frozen=True):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class DeviceOffer(_Struct, frozen=True):
    """Devices that a driver offers on each node of a pool, to be claimed (ResourceSlice).

    Without `count` they are the pool's GPUs, which the nodes then no longer offer as a resource.
    `perNuma` and `perLink` devices in a row share a NUMA cell and a link domain (0: no links).
    """

    driver: str = "gpu.nvidia.com"
    device_class: str = ""  # the driver's name if empty
    count: int | None = None
    prefix: str = "gpu"
    per_numa: int = 4
    per_link: int = 0
    attributes: dict[str, str | int | bool] = {}
    capacity: dict[str, str | int] = {}


class NodePool(_Struct, frozen=True):
    name: str
    count: int
    gpus: int = 0
    model: str = "NVIDIA-H100-80GB-HBM3"
    gpu_memory: str = "80Gi"
    cpu: str | int | float = 128
    memory: str | int = "1Ti"
    pods: int = 110
    resources: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    topology: list[Level] = []
    devices: list[DeviceOffer] = []
    run_time: Distribution = Distribution()
    failures: Failures | None = None
    start_delay_seconds: float = 0.0
    #: GPUs in a row that share a NUMA cell, and that NVLink joins; 0: nodes do not tell.
    gpus_per_numa: int = 0
    gpus_per_link: int = 0


class Kubelet(_Struct, frozen=True):
    """How simulated kubelets behave. `most_grace_seconds` shortens long grace periods."""

    most_grace_seconds: float = 2.0
    evict_after_seconds: float | None = None
    #: Seconds between renewals of the nodes' leases, 0: never. Unset: 30 in real time.
    heartbeat_seconds: float | None = None
    restart_delay_seconds: float = 10.0


class GpuModel(_Struct, frozen=True):
    """How simulated nodes tell of the use of their GPUs. `periodSeconds` 0: they do not.

    Unset: 10 in real time (30 from 65 nodes up), 0 in virtual time.
    """

    period_seconds: float | None = None


class Shard(_Struct, frozen=True):
    """A SchedulingShard object that is there from the start; `spec` as its CRD has it."""

    name: str
    spec: dict[str, Any] = {}


class ClusterConfig(_Struct, frozen=True):
    node_pools: list[NodePool]
    seed: int = 0
    #: Work takes so many times as long as pools and annotations say.
    run_time_factor: float = 1.0
    kubelet: Kubelet = Kubelet()
    gpu_use: GpuModel = GpuModel()
    #: Namespaces whose unlabelled pods are ours (label kai.scheduler/managed=true).
    managed_namespaces: tuple[str, ...] = ("default",)
    scheduler_names: tuple[str, ...] = (L.SCHEDULER_NAME,)
    #: Least time between two scheduling cycles.
    cycle_seconds: float = 0.1
    bind_requests: Literal["never", "always"] = "never"
    #: "kai-scheduler": the Ray operator stamps scheduler name and queue, as its flag of that name.
    ray_batch_scheduler: Literal["", "kai-scheduler"] = ""
    #: Loops of their own for nodes that carry the label kai.scheduler/node-pool.
    shards: list[Shard] = []

    @classmethod
    def short(cls, text: str) -> ClusterConfig:
        """`4x8`: four nodes of eight GPUs, in racks."""
        found = _SHORT.match(text.strip())
        if found is None:
            raise ClusterFileError(
                f"nodes: {text!r} is not of the form COUNTxGPUS: write for example 4x8"
            )
        count, gpus = int(found[1]), int(found[2])
        rack = 2 if count <= 8 else 8
        pool = NodePool(
            name="node",
            count=count,
            gpus=gpus,
            topology=[
                Level(label=ZONE, nodes=max(count, 1), name="zone-{i}"),
                Level(label=RACK, nodes=rack, name="rack-{i}"),
            ],
        )
        return _checked(cls(node_pools=[pool]))

    @classmethod
    def parse(cls, text: str, where: str = "cluster file") -> ClusterConfig:
        try:
            raw = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ClusterFileError(f"{where}: not YAML: {error}") from None
        return cls.of(raw, where)

    @classmethod
    def of(cls, raw: Any, where: str = "cluster file") -> ClusterConfig:
        try:
            return _checked(msgspec.convert(raw, cls))
        except msgspec.ValidationError as error:
            raise ClusterFileError(f"{where}: {_named(error)}") from None
        except ClusterFileError as error:
            raise ClusterFileError(f"{where}: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> ClusterConfig:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ClusterFileError(f"{path}: {error.strerror}: name a readable file") from None
        return cls.parse(text, str(path))

    def slowed(self, factor: float) -> ClusterConfig:
        """The same, in which work takes `factor` times as long. Raises ClusterFileError."""
        return _checked(
            msgspec.structs.replace(self, run_time_factor=self.run_time_factor * factor)
        )

    def pool_of(self, node: Object) -> NodePool | None:
        name = (node["metadata"].get("labels") or {}).get(L.SIM_POOL)
        return next((p for p in self.node_pools if p.name == name), None)

    def nodes(self) -> list[Object]:
        """The Node objects, in pool order; topology domains are numbered across pools."""
        made: list[Object] = []
        for pool in self.node_pools:
            first = len(made)
            made.extend(_node(pool, i, first + i) for i in range(pool.count))
        return made


def _named(error: msgspec.ValidationError) -> str:
    text = str(error)
    message, _, path = text.partition(" - at `")
    field = path.rstrip("`").removeprefix("$").lstrip(".")
    return f"{field}: {message}" if field else message


def _checked(config: ClusterConfig) -> ClusterConfig:
    if not config.node_pools:
        raise ClusterFileError("nodePools: empty: name at least one pool")
    seen: set[str] = set()
    total = 0
    period = config.gpu_use.period_seconds
    if period is not None and not (period == 0 or 1 <= period <= 120):
        raise ClusterFileError(f"gpuUse.periodSeconds: {period:g}: use 1 to 120, or 0 for never")
    if not 0 < config.run_time_factor <= 1e6:
        raise ClusterFileError(
            f"runTimeFactor: {config.run_time_factor:g}: use a number above 0, such as 20"
        )
    for i, pool in enumerate(config.node_pools):
        where = f"nodePools[{i}]"
        if not _NAME.match(pool.name) or len(pool.name) > 50:
            raise ClusterFileError(
                f"{where}.name: {pool.name!r}: use at most 50 lower-case letters, digits and '-'"
            )
        if pool.name in seen:
            raise ClusterFileError(f"{where}.name: {pool.name!r} is used twice: rename one")
        seen.add(pool.name)
        total += pool.count
        _check_pool(pool, where)
    if total > MOST_NODES:
        raise ClusterFileError(f"nodePools: {total} nodes: at most {MOST_NODES} can be simulated")
    return config


def _check_label(pool: NodePool, name: str, value: str, where: str) -> None:
    if not _LABEL_NAME.match(name):
        raise ClusterFileError(f"{where}: {name!r} is no label: write for example zone or a.b/zone")
    if not _LABEL_VALUE.match(_filled(value, pool.count, pool)):
        raise ClusterFileError(
            f"{where}: {value!r}: use at most 63 letters, digits, '-', '_' or '.', and the "
            "patterns {i} and {pool}"
        )


def _check_pool(pool: NodePool, where: str) -> None:
    for field, value in (
        ("count", pool.count),
        ("gpus", pool.gpus),
        ("pods", pool.pods),
        ("gpusPerNuma", pool.gpus_per_numa),
        ("gpusPerLink", pool.gpus_per_link),
    ):
        if value < 0:
            raise ClusterFileError(f"{where}.{field}: {value} is negative: use 0 or more")
    quantities: dict[str, Any] = {
        "cpu": pool.cpu,
        "memory": pool.memory,
        "gpuMemory": pool.gpu_memory,
    }
    quantities |= {f"resources[{k}]": v for k, v in pool.resources.items()}
    for field, value in quantities.items():
        try:
            if (quantity.milli if field == "cpu" else quantity.whole)(value) < 0:
                raise ValueError(f"{value!r} is negative: use 0 or more")
        except ValueError as error:
            raise ClusterFileError(f"{where}.{field}: {error}") from None
    for name in pool.resources:
        if name in _OWN_FIELDS:
            raise ClusterFileError(
                f"{where}.resources[{name}]: set the field {_OWN_FIELDS[name]} instead"
            )
    for j, level in enumerate(pool.topology):
        if level.nodes < 1:
            raise ClusterFileError(f"{where}.topology[{j}].nodes: {level.nodes}: use 1 or more")
        _check_label(pool, level.label, level.name, f"{where}.topology[{j}]")
    _check_devices(pool, f"{where}.devices")
    for name, value in pool.labels.items():
        _check_label(pool, name, value, f"{where}.labels[{name}]")
    times = {
        "runTime.meanSeconds": pool.run_time.mean_seconds,
        "runTime.spread": pool.run_time.spread,
        "startDelaySeconds": pool.start_delay_seconds,
    }
    if pool.failures is not None:
        times["failures.mtbfSeconds"] = pool.failures.mtbf_seconds
        times["failures.repairSeconds"] = pool.failures.repair_seconds
    for field, value in times.items():
        if not 0 <= value < 1e12:
            raise ClusterFileError(f"{where}.{field}: {value}: use a number of seconds from 0 up")


def _check_devices(pool: NodePool, where: str) -> None:
    for j, offer in enumerate(pool.devices):
        for field, name in (("driver", offer.driver), ("deviceClass", offer.device_class)):
            if (name or field == "driver") and not _SUBDOMAIN.match(name):
                raise ClusterFileError(
                    f"{where}[{j}].{field}: {name!r}: write a DNS name such as gpu.example.com"
                )
        if not _NAME.match(offer.prefix) or len(offer.prefix) > 40:
            raise ClusterFileError(f"{where}[{j}].prefix: {offer.prefix!r}: write for example gpu")
        count = pool.gpus if offer.count is None else offer.count
        if not 0 <= count <= MOST_DEVICES:
            raise ClusterFileError(
                f"{where}[{j}].count: {count}: a slice holds 0 to {MOST_DEVICES} devices"
            )
        if offer.per_numa < 1 or offer.per_link < 0:
            raise ClusterFileError(f"{where}[{j}]: perNuma is 1 or more, perLink 0 or more")
    drivers = [offer.driver for offer in pool.devices]
    if len(set(drivers)) < len(drivers):
        raise ClusterFileError(f"{where}: a driver is named twice: name each once")


def _filled(pattern: str, i: int, pool: NodePool) -> str:
    return pattern.replace("{i}", str(i)).replace("{pool}", pool.name)


def _node(pool: NodePool, i: int, n: int) -> Object:
    """Node `i` of its pool, `n` of the cluster."""
    name = f"{pool.name}-{i}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        L.SIM_POOL: pool.name,
    }
    capacity: dict[str, str] = {
        "cpu": str(pool.cpu),
        "memory": str(pool.memory),
        "pods": str(pool.pods),
        "ephemeral-storage": "1Ti",
    }
    if pool.gpus and all(offer.count is not None for offer in pool.devices):
        capacity[L.NVIDIA_GPU] = str(pool.gpus)
    if pool.gpus:
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": pool.model,
            "nvidia.com/gpu.count": str(pool.gpus),
            "nvidia.com/gpu.memory": str(quantity.whole(pool.gpu_memory) // 2**20),
        }
    capacity |= {k: str(v) for k, v in pool.resources.items()}
    for level in pool.topology:
        labels[level.label] = _filled(level.name, n // level.nodes, pool)
    labels |= {k: _filled(v, i, pool) for k, v in pool.labels.items()}
    spec: Object = {}
    if pool.taints:
        spec["taints"] = [msgspec.to_builtins(t) for t in pool.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }

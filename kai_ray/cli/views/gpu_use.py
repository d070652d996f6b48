"""How GPUs are used, as nodes tell it: per card of a node, and for a job as a whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Object, Port
from kai_ray.gpu.node_use import DeviceUse
from kai_ray.gpu.use import GpuUse


class Row(NamedTuple):
    device: DeviceUse
    pods: tuple[str, ...]


class Told(NamedTuple):
    problem: str
    rows: tuple[Row, ...]


DEVICES: tuple[Column[Row], ...] = (
    Column("GPU", lambda r: str(r.device.index)),
    Column("UUID", lambda r: r.device.uuid),
    Column("USE", lambda r: _percent(r.device.utilization)),
    Column("MEMORY", lambda r: _memory(r.device.used_mib, r.device.memory_mib)),
    Column("WATTS", lambda r: output.number(r.device.power_watts)),
    Column("HEALTH", lambda r: _health(r.device)),
    Column("PODS", lambda r: ", ".join(r.pods)),
)


def of_node(port: Port, name: str, pods: Sequence[Object]) -> Told:
    """`pods` are those of the node. Nothing where no agent runs there."""
    use = _read(port, {name})
    node = use.nodes.get(name)
    if node is None:
        return Told("", ())
    names = {p["metadata"].get("uid"): p["metadata"]["name"] for p in pods}
    rows = tuple(
        Row(d, tuple(sorted(names[uid] for uid in d.holders if uid in names))) for d in node.devices
    )
    return Told(use.stale(name, time.time()) or node.problem, rows)


def of_pods(port: Port, pods: Sequence[Object]) -> str:
    """What the pods of a job use together, in words; "" where nobody tells."""
    running = [p for p in pods if (p.get("status") or {}).get("phase") == "Running"]
    use = _read(port, {p["spec"].get("nodeName") or "" for p in running})
    if not use.nodes:
        return ""
    found = use.of_pods(running, time.time())
    if found.held <= 0:
        return ""
    if found.utilization is None:
        return f"not known: {found.problem}"
    memory = f", {found.used_mib / 1024:.0f} GiB of their memory" if found.used_mib else ""
    gpus = f"{output.number(found.held)} GPU" + ("s" if found.held != 1 else "")
    return f"{found.utilization:.0%} of {gpus}{memory}, as of {rfc3339(found.observed_s)}"


def _read(port: Port, names: set[str]) -> GpuUse:
    try:
        states = port.list(R.GPU_NODE_STATE).items
    except ApiError:  # not served, or not to be seen
        states = []
    return GpuUse.of(s for s in states if s["metadata"]["name"] in names)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _memory(used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return ""
    return f"{used / 1024:.0f}/{total / 1024:.0f} GiB"


def _health(device: DeviceUse) -> str:
    return device.problem or ("" if device.healthy else "broken") or "ok"

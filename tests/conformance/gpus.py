"""What a recorded cluster says about parts of GPUs, as the snapshot's table of GPUs.

Device classes and MIG profiles are resource rows. A claim is allocated where a task that names it
stands; without such a task, where it is recorded to be, if outsiders hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kai_ray.scheduler.gpu.facts import MOST_CONSUMERS, Claim, GpuKind, Gpus, MigMode
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import GPU
from tests.conformance.verdict import Case

_KINDS = {
    "none": GpuKind.NONE,
    "whole": GpuKind.WHOLE,
    "fraction": GpuKind.FRACTION,
    "gpu_memory": GpuKind.MEMORY,
    "mig": GpuKind.MIG,
    "dra": GpuKind.DRA,
}
_MODES = {"single": MigMode.SINGLE, "mixed": MigMode.MIXED}
#: More devices than any node has: larger counts are cut to it.
_COUNTLESS = 2**40
QUEUE_LABEL = "kai.scheduler/queue"

#: (kind, devices, portion, MiB, amounts of extra rows, claims, what blocks it, the object)
Ask = tuple[int, int, float, int, tuple[tuple[str, int], ...], tuple[int, ...], Reason, str]


def class_row(name: str) -> str:
    """The resource row of a device class."""
    return f"claim/{name}"


def rows(case: Case) -> tuple[str, ...]:
    """Resource rows beyond the four that every case has."""
    cluster = case["cluster"]
    profiles = {p for node in cluster["nodes"] for p in node["allocatable"]["mig"]}
    for job in cluster["jobs"]:
        profiles |= {p for task in job["tasks"] for p in task["request"]["mig"]}
    classes = {class_row(name) for name in (cluster.get("dra") or {}).get("device_classes", ())}
    return (*sorted(profiles), *sorted(classes))


def offered(case: Case, node: dict[str, Any], row: str) -> int:
    """What a node has of an extra row."""
    held = int(node["allocatable"]["mig"].get(row, 0))
    for piece in (case["cluster"].get("dra") or {}).get("resource_slices", ()):
        here = piece["node"] == node["name"] or piece["all_nodes"]
        if here and class_row(piece["declared_device_class"]) == row:
            held += int(piece["devices"])
    return held


class Claims:
    """The claims of a case and who may use them."""

    def __init__(self, case: Case) -> None:
        dra = case["cluster"].get("dra") or {}
        self._recorded = {claim["name"]: claim for claim in dra.get("resource_claims", ())}
        self._classes = set(dra.get("device_classes", ()))
        self.names = sorted(self._recorded)
        self._row = {name: i for i, name in enumerate(self.names)}

    def of(self, job: dict[str, Any], task: dict[str, Any]) -> tuple[tuple[int, ...], Reason, str]:
        """(claims that a task names, why it may not, the object)."""
        found: list[int] = []
        for name in task["dra_claims"] or ():
            claim = self._recorded.get(name)
            if claim is None:
                return (), Reason.CLAIM_NOT_FOUND, name
            if claim["device_class"] not in self._classes:
                return (), Reason.DEVICE_CLASS_NOT_FOUND, claim["device_class"]
            theirs = claim["labels"].get(QUEUE_LABEL) != job["queue"]
            if _is_gpu(claim["device_class"]) and theirs:
                return (), Reason.CLAIM_WRONG_QUEUE, name
            found.append(self._row[name])
        return tuple(found), Reason.NONE, ""

    def extra(self, task: dict[str, Any]) -> dict[str, int]:
        """Amounts of a task's own claims, those made from templates; "gpu" adds up GPUs."""
        amounts: dict[str, int] = {}
        for name in (task.get("dra_claim_templates") or {}).values():
            claim = self._recorded.get(name)
            if claim is None:
                continue
            for row in (class_row(claim["device_class"]), "gpu"):
                if row != "gpu" or _is_gpu(claim["device_class"]):
                    amounts[row] = amounts.get(row, 0) + _count(claim)
        return amounts

    def table(
        self,
        resources: Sequence[str],
        nodes: Sequence[str],
        users: Mapping[str, Sequence[str]],
        waiting: set[str],
    ) -> tuple[Claim, ...]:
        """`users` are nodes of tasks that hold each claim, `waiting` tasks without a place."""
        row = {name: i for i, name in enumerate(resources)}
        place = {name: i for i, name in enumerate(nodes)}
        found: list[Claim] = []
        for rank, name in enumerate(self.names):
            claim, status = self._recorded[name], self._recorded[name]["status"] or {}
            reserved = {user["name"] for user in status.get("reservedFor") or ()}
            charge = [(row[class_row(claim["device_class"])], _count(claim))]
            if _is_gpu(claim["device_class"]):
                charge.append((GPU, _count(claim)))
            node = -1
            if users.get(name):
                node = place[users[name][0]]
            elif reserved - waiting:
                node = place.get(_pool(status), -1)
            found.append(Claim(tuple(charge), node, MOST_CONSUMERS - len(reserved - waiting), rank))
        return tuple(found)


def _pool(status: dict[str, Any]) -> str:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return results[0]["pool"] if results else ""


def _count(claim: dict[str, Any]) -> int:
    return min(int(claim["count"]), _COUNTLESS)


def _is_gpu(device_class: str) -> bool:
    return "gpu" in device_class.lower()


def ask(claims: Claims, job: dict[str, Any], task: dict[str, Any]) -> Ask:
    """What a task asks of devices."""
    request = task["request"]
    kind = GpuKind.LEGACY_MIG if task["legacy_mig"] else _KINDS[request["gpu_kind"]]
    named, why, what = claims.of(job, task)
    extra = {**request["mig"], **claims.extra(task)}
    return (
        int(kind),
        int(request["gpu_devices"] or 1),
        float(request["gpu_fraction"] or 0.0) if kind == GpuKind.FRACTION else 0.0,
        int(request["gpu_memory_mib"] or 0) if kind == GpuKind.MEMORY else 0,
        tuple(sorted(extra.items())),
        named,
        why,
        what,
    )


def table(
    case: Case,
    nodes: list[dict[str, Any]],
    asks: Sequence[Ask],
    holds: Sequence[tuple[int, int]],
    claims: tuple[Claim, ...],
) -> Gpus:
    """`asks` per class, `holds` as (task row, slot)."""
    config = case["config"]
    pairs = np.array(holds, dtype=np.int32).reshape(len(holds), 2).T
    known = [node["gpu_memory_mib"] if node["gpu_memory_known"] else 0 for node in nodes]
    return Gpus(
        memory=np.array(known, dtype=np.int64),
        mig=np.array([_mode(node) for node in nodes], dtype=np.int8),
        dra=np.array([node["dra_gpus"] > 0 for node in nodes], dtype=bool),
        kind=np.array([a[0] for a in asks], dtype=np.int8),
        devices=np.array([a[1] for a in asks], dtype=np.int32),
        portion=np.array([a[2] for a in asks], dtype=np.float64),
        mib=np.array([a[3] for a in asks], dtype=np.int64),
        hold_task=pairs[0].copy(),
        hold_slot=pairs[1].copy(),
        least_mib=int(config["min_node_gpu_memory_mib"] or 0),
        most_mib=int(config.get("max_node_gpu_memory_mib") or 0),
        claims=claims,
    )


def _mode(node: dict[str, Any]) -> MigMode:
    if not node["mig_enabled"]:
        return MigMode.NONE
    return _MODES.get(node["mig_strategy"], MigMode.OPEN)


class Slots:
    """Device numbers of the labels by which tasks share a device, per node."""

    def __init__(self) -> None:
        self._labels: dict[str, list[str]] = {}

    def put(self, node: str, labels: Sequence[str]) -> list[int]:
        """The slots of a task's devices."""
        known = self._labels.setdefault(node, [])
        known += [label for label in dict.fromkeys(labels) if label not in known]
        return [known.index(label) for label in labels]

    def label(self, node: str, slot: int) -> str:
        """The label of a slot; a device that nobody held before gets a new one."""
        known = self._labels.get(node, [])
        if slot < len(known):
            return known[slot]
        fresh = f"device-{slot}"
        while fresh in known:
            fresh += "'"
        return fresh

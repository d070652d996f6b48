"""One pod's way to its node, and the writes that take it there."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object, Port, Write
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.device_notices import Given
from kai_ray.encode import Encoded
from kai_ray.encode.dra import assign
from kai_ray.encode.dra.allocation import ClaimGrant
from kai_ray.encode.groups import DEFAULT_LEAF
from kai_ray.scheduler import Plan
from kai_ray.scheduler.gpu.facts import UNKNOWN_CARD

SELECTED_NODE = "selected-node"
#: Names of shared devices are made in this namespace.
_DEVICES = uuid.UUID("5f0f3c1e-6f0a-4c55-9a43-2f6f3c1d8e21")


@dataclass(slots=True)
class Grant:
    """A decision for one pod. `unsure`: it may have happened, and nobody could be asked yet;
    `flying`: its write is under way."""

    pod: Key
    uid: str
    node: str
    group: Key
    subgroup: str
    stamp_group: bool  # the pod does not carry its group yet
    gpus: int = 0
    groups: tuple[str, ...] = ()  # devices that it shares with others
    portion: float = 1.0  # of each of them
    zones: tuple[tuple[str, str], ...] = ()  # annotations that tell the zones it is to hold
    given: Given | None = None  # the devices, once they are reserved
    claims: tuple[ClaimGrant, ...] = ()  # what its resource claims get
    short: str = ""  # why there is no device for it after all
    unsure: bool = False
    flying: bool = False
    sent_s: float = 0.0  # when that began


def grants_of(encoded: Encoded, plan: Plan, kept_on: Callable[[str], set[str]]) -> list[Grant]:
    """The binds of a Plan by name, gang by gang in its order. `kept_on` as in `shares_of`."""
    tasks, roots = encoded.snapshot.tasks, encoded.snapshot.gangs.root
    shared, zones = shares_of(encoded, plan, kept_on), zones_of(encoded, plan)
    claimed = assign.grants(encoded, plan)
    none = assign.Granted()
    found: list[Grant] = []
    for task, node in zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True):
        pod = encoded.names.pod_object(task)
        if pod is None:
            continue
        gang = int(tasks.gang[task])
        group = encoded.names.gang(gang)
        leaf = int(tasks.leaf[task]) - int(roots[gang])
        annotations = pod["metadata"].get("annotations") or {}
        shape = encoded.shapes[int(tasks.klass[task])]
        found.append(
            Grant(
                pod=encoded.names.pod(task),
                uid=pod["metadata"].get("uid") or "",
                node=encoded.names.node(node),
                group=group,
                subgroup=encoded.names.leaf_names[group][leaf],
                stamp_group=annotations.get(names.POD_GROUP) != group.name,
                gpus=sum(n for name, n in shape.request if name in GPU_RESOURCES),
                groups=shared[task].groups if task in shared else (),
                portion=shared[task].portion if task in shared else 1.0,
                zones=zones.get(task, ()),
                claims=claimed.get(task, none).claims,
                short=claimed.get(task, none).refusal,
            )
        )
    return found


def zones_of(encoded: Encoded, plan: Plan) -> dict[int, tuple[tuple[str, str], ...]]:
    """Per task row, the annotations that tell which zones of its node it is predicted to hold."""
    node_of = dict(zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True))
    found: dict[int, dict[str, dict[str, dict[str, str]]]] = {}
    columns = (
        plan.zone_task,
        plan.zone_kind,
        plan.zone_index,
        plan.zone_resource,
        plan.zone_amount,
    )
    for task, kind, zone, row, amount in zip(*(c.tolist() for c in columns), strict=True):
        told = encoded.names.zones.get(encoded.names.node(node_of.get(task, -1)))
        if task not in node_of or told is None:
            continue
        note = names.LINKS_PREDICTED if kind else names.NUMA_PREDICTED
        name = (told.links if kind else told.zones)[zone].name
        resource = encoded.snapshot.resources[row]
        text = f"{amount}m" if resource == "cpu" else str(amount)
        resource = GPU_RESOURCES[0] if resource == "gpu" else resource
        found.setdefault(task, {}).setdefault(note, {}).setdefault(name, {})[resource] = text
    return {task: tuple((k, _pieces(v)) for k, v in notes.items()) for task, notes in found.items()}


def _pieces(zones: dict[str, dict[str, str]]) -> str:
    return json.dumps([{"zone": name, "amount": amounts} for name, amounts in zones.items()])


class Share(NamedTuple):
    """The devices that a pod is given a part of, by the names of the groups that share them."""

    groups: tuple[str, ...]
    portion: float  # of each, in whole percent and not less than asked


def shares_of(encoded: Encoded, plan: Plan, kept_on: Callable[[str], set[str]]) -> dict[int, Share]:
    """Per task row that is bound now. A device that is new to sharing gets a new group.

    The new name is made of the node and the lowest number that no group there has: of two
    schedulers that open a card of one node at once, one creates its reservation pod and the other
    finds it there. `kept_on` tells the groups of a node that still have such a pod.
    """
    node_of = dict(zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True))
    gpus = encoded.snapshot.gpus
    fresh: dict[tuple[int, int], str] = {}
    taken: dict[int, set[str]] = {}
    found: dict[int, Share] = {}
    rows = zip(
        plan.grant_task.tolist(), plan.grant_slot.tolist(), plan.grant_mib.tolist(), strict=True
    )
    for task, slot, mib in rows:
        node = node_of.get(task)
        pod = encoded.names.pod_object(task)
        if node is None or pod is None or gpus is None:
            continue
        group = encoded.names.device_group(node, slot)
        if not group:
            group = fresh.get((node, slot), "")
        if not group:
            name = encoded.names.node(node)
            if node not in taken:
                taken[node] = kept_on(name) | set(encoded.names.groups.get(node, ()))
            group = fresh[node, slot] = new_group(name, taken[node])
        card = int(gpus.memory[node]) or UNKNOWN_CARD
        klass = int(encoded.snapshot.tasks.klass[task])
        part = float(gpus.portion[klass]) or -(-100 * mib // card) / 100
        before = found[task].groups if task in found else ()
        found[task] = Share(tuple(sorted((*before, group))), part)
    return found


def new_group(node: str, taken: set[str]) -> str:
    """A name that no group of the node has; it is taken from now on."""
    names_ = (str(uuid.uuid5(_DEVICES, f"{node}/{number}")) for number in itertools.count())
    found = next(name for name in names_ if name not in taken)
    taken.add(found)
    return found


def share_labels(groups: tuple[str, ...]) -> dict[str, str]:
    """The labels by which a pod says which devices it shares."""
    if len(groups) == 1:
        return {names.GPU_GROUP: groups[0]}
    return {f"{names.GPU_GROUP}/{group}": group for group in groups}


def binding(port: Port, g: Grant, config: ControlConfig) -> Write:
    """The one write of a pod; what it does not carry yet of its gang travels along."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if g.stamp_group:
        annotations[names.POD_GROUP] = g.group.name
        if g.subgroup != DEFAULT_LEAF:
            labels[names.SUBGROUP] = g.subgroup
    if config.encode.node_pool:
        labels[config.encode.node_pool_key] = config.encode.node_pool
    if g.given is not None:
        labels |= share_labels(g.groups)
        annotations |= g.given.annotations
    annotations |= dict(g.zones)
    extra: dict[str, Any] = {
        "uid": g.uid,
        "resource_version": g.given.version if g.given is not None else "",
        "labels": labels or None,
        "annotations": annotations or None,
    }
    return Write(port.bind, (g.pod.namespace, g.pod.name, g.node), extra)


def _received(g: Grant) -> Object:
    if g.groups:
        return {"count": len(g.groups), "portion": f"{g.portion:.2f}"}
    return {"count": g.gpus, "portion": "1.00" if g.gpus else "0.00"}


def request(port: Port, g: Grant, config: ControlConfig) -> Write:
    """A BindRequest in place of the bind (KAI 0.17, BindRequest v1alpha2)."""
    labels = {SELECTED_NODE: g.node}
    if config.encode.node_pool:
        labels[config.encode.node_pool_key] = config.encode.node_pool
    owner = {"apiVersion": "v1", "kind": "Pod", "name": g.pod.name, "uid": g.uid}
    zones = dict(g.zones)
    cells, links = zones.get(names.NUMA_PREDICTED), zones.get(names.LINKS_PREDICTED)
    made: Object = {
        "apiVersion": kinds.BIND_REQUEST.api_version,
        "kind": kinds.BIND_REQUEST.kind,
        "metadata": {
            "name": g.pod.name,
            "namespace": g.pod.namespace,
            "labels": labels,
            **({"annotations": {names.LINKS_PREDICTED: links}} if links else {}),
            "ownerReferences": [owner],
        },
        "spec": {
            "podName": g.pod.name,
            "selectedNode": g.node,
            "receivedResourceType": "Fraction" if g.groups else "Regular",
            "receivedGPU": _received(g),
            **({"selectedGPUGroups": list(g.groups)} if g.groups else {}),
            **({"predictedNUMAZones": json.loads(cells)} if cells else {}),
            "backoffLimit": config.bind_tries - 1,
        },
    }
    return Write(port.create, (kinds.BIND_REQUEST, made))

"""One pod's way to its node, and the writes that take it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object, Port, Write
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode import Encoded
from kai_ray.encode.groups import DEFAULT_LEAF
from kai_ray.scheduler import Plan

SELECTED_NODE = "selected-node"


@dataclass(slots=True)
class Grant:
    """A decision for one pod. `unsure`: it may have happened, and nobody could be asked yet."""

    pod: Key
    uid: str
    node: str
    group: Key
    subgroup: str
    stamp_group: bool  # the pod does not carry its group yet
    gpus: int = 0
    unsure: bool = False


def grants_of(encoded: Encoded, plan: Plan) -> list[Grant]:
    """The binds of a Plan by name, gang by gang in its order."""
    tasks, roots = encoded.snapshot.tasks, encoded.snapshot.gangs.root
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
            )
        )
    return found


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
    extra: dict[str, Any] = {
        "uid": g.uid,
        "labels": labels or None,
        "annotations": annotations or None,
    }
    return Write(port.bind, (g.pod.namespace, g.pod.name, g.node), extra)


def request(port: Port, g: Grant, config: ControlConfig) -> Write:
    """A BindRequest in place of the bind (semantics §1.3)."""
    labels = {SELECTED_NODE: g.node}
    if config.encode.node_pool:
        labels[config.encode.node_pool_key] = config.encode.node_pool
    owner = {"apiVersion": "v1", "kind": "Pod", "name": g.pod.name, "uid": g.uid}
    made: Object = {
        "apiVersion": kinds.BIND_REQUEST.api_version,
        "kind": kinds.BIND_REQUEST.kind,
        "metadata": {
            "name": g.pod.name,
            "namespace": g.pod.namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "podName": g.pod.name,
            "selectedNode": g.node,
            "receivedResourceType": "Regular",
            "receivedGPU": {"count": g.gpus, "portion": "1.00" if g.gpus else "0.00"},
            "backoffLimit": config.bind_tries - 1,
        },
    }
    return Write(port.create, (kinds.BIND_REQUEST, made))

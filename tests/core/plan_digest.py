"""Prints a digest of the Plan for one varied cluster, from objects: run under many hash seeds."""

from __future__ import annotations

import hashlib
from typing import Any

from kai_ray.encode import RESOURCES, Encoder
from kai_ray.scheduler import decide
from tests.control import objects

Object = dict[str, Any]
_COLOURS = ("red", "green", "blue")


def cluster() -> dict[str, list[Object]]:
    """Nodes in zones with taints, queues with limits, gangs with every kind of rule."""
    nodes = [
        objects.node(
            f"node-{i}",
            gpus=8 if i % 4 else 0,
            cordoned=i == 7,
            labels={"zone": f"z{i % 3}", "colour": _COLOURS[i % 3]},
            taints=[{"key": "pool", "value": str(i % 2), "effect": "NoSchedule"}] if i % 5 else [],
        )
        for i in range(12)
    ]
    queues = [objects.queue("dept"), objects.queue("other")]
    for i, name in enumerate(("a", "b", "c")):
        gpu = {"quota": 4 * i, "limit": 30 - 10 * i, "overQuotaWeight": 1 + i}
        queues.append(objects.queue(name, "dept", gpu=gpu))
    groups = [
        objects.podgroup(f"g{i}", ("a", "b", "c", "other", "dept")[i % 5], 1 + i % 3)
        for i in range(30)
    ]
    pods = [_pod(i, k) for i in range(30) for k in range(1 + i % 4)]
    return {"Node": nodes, "Queue": queues, "PodGroup": groups, "Pod": pods}


def _pod(i: int, k: int) -> Object:
    more: Object = {
        "tolerations": [{"key": "pool", "operator": "Exists"}] if i % 2 else [],
        "nodeSelector": {"colour": _COLOURS[i % 3]} if i % 4 == 0 else {},
    }
    if i % 6 == 1:
        term = {"labelSelector": {"matchLabels": {"app": f"g{i % 3}"}}, "topologyKey": "zone"}
        more["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    if i % 7 == 2:
        more["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"g{i}"}},
            }
        ]
    running = {"node": f"node-{i % 12}", "phase": "Running"} if i % 11 == 0 else {}
    labels = {"app": f"g{i}", "tier": str(i % 2)}
    return objects.pod(f"g{i}-{k}", f"g{i}", gpus=i % 3, labels=labels, **running, **more)


def digest() -> str:
    encoder = Encoder()
    listed = cluster()
    for resource in RESOURCES:
        encoder.apply_all(resource, listed.get(resource.kind, ()))
    encoded = encoder.snapshot(1_800_000_000.0)
    plan, names = decide(encoded.snapshot), encoded.names
    binds = [
        (names.pod(task), names.node(node))
        for task, node in zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True)
    ]
    assert len(binds) > 10 and len(plan.waits) > 3, "the cluster must make the core decide things"
    said = (binds, plan.waits, plan.fair_share.tolist(), plan.allocated.tolist())
    return hashlib.sha256(repr(said).encode()).hexdigest()


if __name__ == "__main__":
    print(digest())

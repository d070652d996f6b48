"""Nodes that kwok plays the kubelets of."""

from __future__ import annotations

from collections.abc import Mapping

from kai_ray.cluster.port import Object

FAKE = {"kwok.x-k8s.io/node": "fake"}
SELECTOR = "kwok.x-k8s.io/node=fake"
AMOUNTS: Mapping[str, str] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
NOT_READY = "node.kubernetes.io/not-ready"


def gpu_node(
    name: str,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
) -> Object:
    """A node with `gpus` devices; `resources` are added to its usual amounts, or replace them."""
    amounts = {**AMOUNTS, **({"nvidia.com/gpu": str(gpus)} if gpus else {}), **(resources or {})}
    usual = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": usual | dict(labels or {}), "annotations": FAKE},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def is_usable(node: Object) -> bool:
    """Whether pods may be put on it: it is Ready, and the taint of a new node is gone."""
    taints = node.get("spec", {}).get("taints") or ()
    return holds(node, "Ready") and all(taint["key"] != NOT_READY for taint in taints)


def holds(obj: Object, condition: str) -> bool:
    """Whether a condition of an object's status is True."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in found)

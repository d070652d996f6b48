"""Objects for tests: what `kubectl get -o json` would show of them, as far as anybody reads it."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
_UNLIMITED = {r: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for r in ("cpu", "memory", "gpu")}


def node(name: str, gpus: int = 8, *, ready: bool = True, cordoned: bool = False, **more: Any):
    spec: Object = {"unschedulable": True} if cordoned else {}
    if "taints" in more:
        spec["taints"] = more["taints"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **more.get("labels", {})},
        },
        "spec": spec,
        "status": {
            "allocatable": {
                "cpu": "64",
                "memory": "256Gi",
                "pods": "110",
                **({"nvidia.com/gpu": str(gpus)} if gpus else {}),
                **more.get("allocatable", {}),
            },
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def queue(name: str, parent: str = "", *, gpu: Object | None = None, **spec: Any) -> Object:
    resources = {**_UNLIMITED, **({"gpu": gpu} if gpu else {})}
    body: Object = {"resources": resources, **spec}
    if parent:
        body["parentQueue"] = parent
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": body,
    }


def podgroup(name: str, queue: str = "team", minimum: int | None = 1, **spec: Any) -> Object:
    body: Object = {"queue": queue, **spec}
    if minimum is not None:
        body["minMember"] = minimum
    meta = {
        "name": name,
        "namespace": spec.pop("namespace", "default"),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    body.pop("namespace", None)
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": body,
    }


def pod(
    name: str,
    group: str = "",
    *,
    gpus: int | str = 1,
    cpu: str = "1",
    namespace: str = "default",
    scheduler: str = "kai-scheduler",
    node: str = "",
    phase: str = "Pending",
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Object:
    requests: Object = {"cpu": cpu}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    requests.update(more.pop("requests", {}))
    meta: Object = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": dict(labels or {}),
        "annotations": {**({"pod-group-name": group} if group else {})},
    }
    meta["annotations"].update(more.pop("annotations", {}))
    if "uid" in more:
        meta["uid"] = more.pop("uid")
    spec: Object = {
        **({"schedulerName": scheduler} if scheduler else {}),
        "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
        **more,
    }
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase},
    }

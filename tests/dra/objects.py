"""Devices, claims and pods that claim, as users and drivers write them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
GPU_DRIVER = "gpu.nvidia.com"


def device(name: str, *, capacity: Object | None = None, **more: Any) -> Object:
    """`attributes` as plain values; further fields of a device as they are."""
    attributes = {k: _typed(v) for k, v in more.pop("attributes", {}).items()}
    made: Object = {"name": name, **more}
    if attributes:
        made["attributes"] = attributes
    if capacity:
        made["capacity"] = {k: {"value": v} for k, v in capacity.items()}
    return made


def _typed(value: Any) -> Object:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def gpus(count: int, model: str = "H100", per_numa: int = 4) -> list[Object]:
    return [
        device(
            f"gpu-{i}",
            attributes={"productName": model, "uuid": f"GPU-{i}", "numaNode": i // per_numa},
            capacity={"memory": "80Gi"},
        )
        for i in range(count)
    ]


def slice_of(node: str, devices: list[Object], driver: str = GPU_DRIVER, **more: Any) -> Object:
    """A driver's devices; with `node` "" they are reached from everywhere unless said otherwise."""
    pool = {"name": node or "net", "generation": 1, "resourceSliceCount": 1}
    pool |= more.pop("pool", {})
    where: Object = {"nodeName": node} if node else {"allNodes": True}
    where = more.pop("where", where)
    name = more.pop("name", f"{node or 'net'}-{driver}")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, "devices": devices, **where, **more},
    }


def device_class(name: str = GPU_DRIVER, *expressions: str) -> Object:
    stated = expressions or (f"device.driver == '{name}'",)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": e}} for e in stated]},
    }


def exactly(name: str = "gpu", cls: str = GPU_DRIVER, count: int = 1, **more: Any) -> Object:
    """A request; `where` are CEL expressions."""
    selectors = [{"cel": {"expression": e}} for e in more.pop("where", ())]
    body: Object = {"deviceClassName": cls, "count": count, **more}
    if body.get("allocationMode") == "All":
        del body["count"]
    if selectors:
        body["selectors"] = selectors
    return {"name": name, "exactly": body}


def spec(*requests: Object, **more: Any) -> Object:
    return {"devices": {"requests": list(requests or (exactly(),)), **more}}


def claim(name: str, body: Object | None = None, *, queue: str = "", **more: Any) -> Object:
    meta: Object = {"name": name, "namespace": "default", **more.pop("meta", {})}
    if queue:
        meta["labels"] = {"kai.scheduler/queue": queue}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": body or spec(),
        **more,
    }


def template(name: str, body: Object | None = None) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": body or spec()},
    }


def allocation(node: str, *devices: str, driver: str = GPU_DRIVER) -> Object:
    results = [{"request": "gpu", "driver": driver, "pool": node, "device": d} for d in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def reserved(*uids: str) -> list[Object]:
    return [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]


def pod(name: str, *, template: str = "", claim: str = "", **more: Any) -> Object:
    """A pod of a user, with one claim; `queue` is its label."""
    entry: Object = {"name": "devices"}
    if template:
        entry["resourceClaimTemplateName"] = template
    if claim:
        entry["resourceClaimName"] = claim
    labels = {"kai.scheduler/queue": more.pop("queue", "default-queue"), **more.pop("labels", {})}
    resources: Object = {"claims": [{"name": "devices"}], **more.pop("resources", {})}
    meta: Object = {"name": name, "namespace": "default", "labels": labels}
    meta |= more.pop("meta", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "app", "resources": resources}],
            "resourceClaims": [entry],
            **more,
        },
    }

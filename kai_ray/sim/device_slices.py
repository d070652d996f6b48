"""Devices of simulated nodes as drivers would offer them: slices and device classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

if TYPE_CHECKING:
    from .cluster_file import ClusterConfig, DeviceOffer, NodePool


def device_classes(config: ClusterConfig) -> Iterator[Object]:
    """One per class that a pool names: all devices of its driver."""
    found: dict[str, str] = {}
    for pool in config.node_pools:
        for offer in pool.devices:
            found.setdefault(offer.device_class or offer.driver, offer.driver)
    for name, driver in found.items():
        selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
        yield {
            "apiVersion": R.DEVICE_CLASS.api_version,
            "kind": R.DEVICE_CLASS.kind,
            "metadata": {"name": name},
            "spec": {"selectors": [selector]},
        }


def slices(config: ClusterConfig) -> Iterator[Object]:
    """One per node and driver."""
    for pool in config.node_pools:
        for i in range(pool.count if pool.devices else 0):
            node = f"{pool.name}-{i}"
            for offer in pool.devices:
                yield _slice(pool, offer, node)


def _slice(pool: NodePool, offer: DeviceOffer, node: str) -> Object:
    count = pool.gpus if offer.count is None else offer.count
    return {
        "apiVersion": R.RESOURCE_SLICE.api_version,
        "kind": R.RESOURCE_SLICE.kind,
        "metadata": {"name": f"{node}-{offer.driver}"},
        "spec": {
            "driver": offer.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(pool, offer, node, i) for i in range(count)],
        },
    }


def _device(pool: NodePool, offer: DeviceOffer, node: str, i: int) -> Object:
    attributes: dict[str, Any] = {
        "uuid": {"string": f"{offer.prefix.upper()}-{node}-{i}"},
        "numaNode": {"int": i // offer.per_numa},
    }
    made: Object = {"name": f"{offer.prefix}-{i}"}
    if offer.count is None:
        attributes["productName"] = {"string": pool.model}
        made["capacity"] = {"memory": {"value": str(pool.gpu_memory)}}
    if offer.per_link:
        attributes["linkDomain"] = {"string": f"{node}-{i // offer.per_link}"}
    attributes |= {name: _typed(value) for name, value in offer.attributes.items()}
    if offer.capacity:
        made["capacity"] = {k: {"value": str(v)} for k, v in offer.capacity.items()}
    return {**made, "attributes": attributes}


def _typed(value: str | int | bool) -> Object:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}

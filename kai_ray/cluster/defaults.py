"""The queues and priority classes that a fresh installation starts with."""

from __future__ import annotations

from collections.abc import Iterator

from kai_ray.api import labels

from . import resources as kinds
from .port import AlreadyExists, Object, Port, Resource

_PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def install_queues(port: Port) -> None:
    """Adds what is missing; objects that exist are left as they are."""
    for resource, obj in _defaults():
        add(port, resource, obj)


def add(port: Port, resource: Resource, obj: Object) -> None:
    """Creates an object unless one of that name exists."""
    try:
        port.create(resource, obj)
    except AlreadyExists:
        return


def _defaults() -> Iterator[tuple[Resource, Object]]:
    for name, value in _PRIORITIES.items():
        yield kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value}
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    every = {"gpu": share, "cpu": share, "memory": share}
    parent, leaf = labels.DEFAULT_PARENT_QUEUE, labels.DEFAULT_QUEUE
    yield kinds.QUEUE, {"metadata": {"name": parent}, "spec": {"resources": every}}
    spec = {"parentQueue": parent, "resources": every}
    yield kinds.QUEUE, {"metadata": {"name": leaf}, "spec": spec}

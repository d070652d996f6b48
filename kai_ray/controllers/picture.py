"""What controllers know of a cluster, from lists alone: for who asks once and lets nothing happen.

A decision depends on more than the encoder reads: who is on its way out, whose head nobody would
make again, who would lose an attempt. The controllers that know it are set up here as they are, on
a runtime that lists what they watch and never reconciles anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

from kai_ray.cluster.clock import Clock
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.pages import listed
from kai_ray.cluster.port import ApiError, Key, Object, Port, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.attempts import Attempts
from kai_ray.controllers.events import Events
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.encode import Encoder


class Spared(NamedTuple):
    """Gangs that are never victims, and those that are the last to be."""

    never: set[Key]
    resort: set[Key]


class _Still:
    """A runtime on which nothing happens."""

    def __init__(self, port: Port, clock: Clock) -> None:
        self.port, self.clock = port, clock
        self._informers: dict[Resource, Informer] = {}

    def informer(self, resource: Resource) -> Informer:
        found = self._informers.get(resource)
        if found is None:
            found = self._informers[resource] = Informer(resource, lambda: None)
        return found

    def fill(self) -> None:
        """Lists what is watched; whoever watches is told of all of it."""
        for resource, informer in list(self._informers.items()):
            for obj in listed(self.port, resource, unless=ApiError):
                informer.remember(obj)

    def enqueue(self, controller: str, key: str, after_s: float = 0.0) -> None:
        """Nothing is reconciled."""

    def need(self, *resources: Resource) -> None:
        """Nothing is waited for."""


def spared(port: Port, clock: Clock, encoder: Encoder, groups: Iterable[Object]) -> Spared:
    """Also tells the encoder which gangs are told to go already.

    Costs a list of each kind that can be suspended; nothing where no gang is of a workload.
    """
    if not any(group["metadata"].get("ownerReferences") for group in groups):
        return Spared(set(), set())
    still = _Still(port, clock)
    attempts = Attempts(encoder, Events())
    suspensions = Suspensions(encoder, attempts)
    for controller in (attempts, suspensions):
        controller.setup(cast(Runtime, still))
    still.fill()
    return Spared(suspensions.irreplaceable(), suspensions.last_resort())

"""The console of a process that schedules: over its own caches, beside what it tells of itself."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.port import Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.console.app import LOOPBACK, Console
from kai_ray.console.cluster import Cluster, Inside
from kai_ray.console.clusters import Clusters
from kai_ray.console.viewers import ClusterDoor, LocalDoor, Owner
from kai_ray.manager.composition import Composition

#: The present life of the process: its parts and its caches.
Present = Callable[[], tuple[Composition, Runtime]]


def local(name: str, port: Port, present: Present, user: str, token: str, sign_in: str) -> Console:
    """For the machine that it runs on: whoever has the token may do all that `port` may."""
    door = LocalDoor(token, Owner(user, port), sign_in)
    return Console(Clusters([_cluster(name, port, present)]), door, LOOPBACK)


def shared(name: str, port: Port, connection: Connection, present: Present) -> Console:
    """For a cluster's users, each with a token and the rights of their own."""
    return Console(Clusters([_cluster(name, port, present)]), ClusterDoor(port, connection))


def _cluster(name: str, port: Port, present: Present) -> Cluster:
    return Cluster(name, lambda: present()[1], port, inside=lambda: _inside(present()[0]))


def _inside(composition: Composition) -> Inside:
    shards = composition.shards

    def loop(pool: str):
        control = shards.control(pool)
        return control.loop if control is not None else None

    recorder = composition.recorder
    history = recorder.reader() if recorder is not None else None
    return Inside(composition.sight, loop, history)

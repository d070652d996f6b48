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
from kai_ray.report.prices import Prices

#: The present life of the process: its parts and its caches.
Present = Callable[[], tuple[Composition, Runtime]]


def local(
    name: str,
    port: Port,
    present: Present,
    user: str,
    token: str,
    sign_in: str,
    prices: Prices | None = None,
) -> Console:
    """For the machine that it runs on: whoever has the token may do all that `port` may."""
    door = LocalDoor(token, Owner(user, port), sign_in)
    return Console(Clusters([_cluster(name, port, present, prices)]), door, LOOPBACK)


def shared(
    name: str,
    port: Port,
    connection: Connection,
    present: Present,
    prices: Prices | None = None,
) -> Console:
    """For a cluster's users, each with a token and the rights of their own."""
    there = _cluster(name, port, present, prices)
    return Console(Clusters([there]), ClusterDoor(port, connection))


def _cluster(name: str, port: Port, present: Present, prices: Prices | None) -> Cluster:
    return Cluster(name, lambda: present()[1], port, inside=lambda: _inside(present()[0], prices))


def _inside(composition: Composition, prices: Prices | None) -> Inside:
    shards = composition.shards

    def loop(pool: str):
        control = shards.control(pool)
        return control.loop if control is not None else None

    recorder = composition.recorder
    history = recorder.reader() if recorder is not None else None

    def problems() -> list[str]:
        kept = recorder.problem if recorder is not None else ""
        told = composition.delivery.figures().problems
        found = [f"notifications to {target}: {why}" for target, why in told]
        return [f"history: {kept}", *found] if kept else found

    return Inside(composition.sight, loop, history, prices, problems)

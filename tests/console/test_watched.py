"""A cluster that is only looked at: for who may see one namespace, away, back, or standing by."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.rest import RestServer
from kai_ray.cluster.rest.users import User
from kai_ray.cluster.runtime import Runtime
from kai_ray.console import cluster as cluster_module
from kai_ray.console import watched as watched_module
from kai_ray.console.api.decisions import decisions
from kai_ray.console.asking import Ask
from kai_ray.console.cluster import Cluster, Inside
from kai_ray.console.clusters import Clusters
from kai_ray.console.viewers import Owner
from kai_ray.console.watched import Watched
from kai_ray.sight.sight import Sight

from .conftest import World


def eventually(see: Callable[[], Any], within_s: float = 20) -> Any:
    end = time.monotonic() + within_s
    while not (found := see()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.fixture
def rest(world: World) -> Iterator[RestServer]:
    """`open` runs in team-a, `covert` in team-b; alice may view team-a."""
    world.job("open", "vision", namespace="team-a")
    world.job("covert", "robots", namespace="team-b")
    world.run()
    binding = {
        "metadata": {"name": "alice", "namespace": "team-a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "alice"}],
    }
    world.cluster.store.create(R.ROLE_BINDING, binding)
    tokens: dict[str, User | str] = {"administrator": "root", "of-alice-1": User("alice")}
    with RestServer(world.cluster.store, tokens=tokens) as server:
        yield server


def test_who_may_see_one_namespace_names_it(rest: RestServer) -> None:
    watched = Watched("a", rest.connection("of-alice-1"), home=True, namespace="team-a")
    watched.start()
    try:
        eventually(lambda: watched.cluster.health()[0].ok)
        view = watched.cluster.view()
        assert [row.job.name for row in view.jobs.rows()] == ["open"]
        assert view.nodes.rows() == [] and view.queues.list() == []
        assert "nodes" in watched.cluster.health()[0].message
    finally:
        watched.stop()


def test_what_may_be_edited_is_asked_of_the_server(rest: RestServer) -> None:
    for token, may in (("administrator", {"vision"}), ("of-alice-1", set[str]())):
        watched = Watched("a", rest.connection(token), home=True)
        try:
            viewer = Owner("somebody", watched.port, ask=True)
            assert viewer.may_edit(["vision"]) == may
        finally:
            watched.stop()


@pytest.mark.slow
def test_a_cluster_that_comes_and_goes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_module, "SILENCE_S", 4.0)
    monkeypatch.setattr(cluster_module, "SILENT_S", 6.0)

    def serve(port: int = 0) -> RestServer:
        return RestServer(world.cluster.store, port=port, folder=tmp_path).start()

    first = serve()
    port, connection = int(first.url.rpartition(":")[2]), first.connection()
    first.stop()
    watched = Watched("a", connection, home=True)
    watched.start()
    try:
        eventually(lambda: watched.cluster.health()[0].state == "down")
        assert "no answer" in watched.cluster.health()[0].message
        with serve(port):
            eventually(lambda: watched.cluster.health()[0].ok)
            assert len(watched.cluster.view().nodes.rows()) == 2
        eventually(lambda: watched.cluster.health()[0].state == "down")
        assert len(watched.cluster.view().nodes.rows()) == 2, "what was seen last is kept"
    finally:
        watched.stop()


def test_one_that_stands_by_says_so_and_shows_the_rest(world: World) -> None:
    world.job("depth", "vision")
    world.run()
    standby = Runtime(world.cluster.store, world.cluster.clock, may_act=lambda: False)
    inside = Inside(Sight(), lambda pool: None)
    cluster = Cluster("x", lambda: standby, world.cluster.store, inside=lambda: inside)
    ask = Ask(Clusters([cluster]), Owner("me", world.cluster.store))
    assert cluster.health()[0].state == "starting"
    standby.run_once()
    assert cluster.health()[0].ok
    told = decisions(ask)
    assert "standing by" in told.note and told.cycles == []
    assert [row.job.name for row in ask.view.jobs.rows()] == ["depth"]
    standby.close()

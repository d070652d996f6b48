"""Several clusters at a glance: `kai get ... --context a,b`, one of which may be down."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kai_ray.cli import contexts
from kai_ray.cluster import kubeconfig
from kai_ray.cluster import resources as r
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.cli.conftest import Kai


@dataclass
class Sites:
    """Two clusters, `east` and `west`, in one kubeconfig."""

    kai: Kai
    servers: dict[str, RestServer] = field(default_factory=dict)
    clusters: dict[str, EmbeddedCluster] = field(default_factory=dict)


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    file = tmp_path / "kubeconfig"
    made = Sites(Kai(file))
    for name, nodes in (("east", "1x8"), ("west", "2x4")):
        cluster = made.clusters[name] = EmbeddedCluster(ClusterConfig.short(nodes))
        cluster.start()
        server = made.servers[name] = cluster.serve()
        kubeconfig.write(server.kubeconfig(name), file)
        share = {"quota": 4, "limit": -1, "overQuotaWeight": 1}
        spec = {"resources": {"gpu": share}}
        cluster.store.create(r.QUEUE, {"metadata": {"name": f"team-{name}"}, "spec": spec})
    yield made
    for cluster in made.clusters.values():
        cluster.stop()


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_every_row_says_where_it_is_from(sites: Sites) -> None:
    table = lines(sites.kai.ok("get", "queues", "--context", "east,west"))
    assert table[0][:3] == ["CONTEXT", "NAME", "PARENT"]
    found = {(row[0], row[1]) for row in table[1:]}
    assert {("east", "team-east"), ("west", "team-west")} <= found
    nodes = lines(sites.kai.ok("get", "nodes", "--context", "west,east"))[1:]
    assert [row[0] for row in nodes] == ["west", "west", "east"]


def test_documents_say_it_too(sites: Sites) -> None:
    said = sites.kai.ok("get", "queues", "team-*", "--context", "east,west", "-o", "json")
    document = json.loads(said)
    assert [(q["context"], q["metadata"]["name"]) for q in document["items"]] == [
        ("east", "team-east"),
        ("west", "team-west"),
    ]
    assert document["unreachable"] == []


def test_one_that_is_down_is_named_and_the_other_is_shown(sites: Sites) -> None:
    sites.servers["east"].stop()
    done = sites.kai("get", "queues", "--context", "east,west")
    assert done.exit_code == 0
    assert "team-west" in done.stdout and "team-east" not in done.stdout
    assert "context east is not shown: " in done.stderr
    said = sites.kai.ok("get", "jobs", "-A", "--context", "east,west", "-o", "json")
    (away,) = json.loads(said)["unreachable"]
    assert away["context"] == "east" and away["message"]


def test_one_that_says_nothing_does_not_hold_up_the_other(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        config = kubeconfig.read(str(sites.kai.file))
        server = f"https://127.0.0.1:{mute.getsockname()[1]}"
        config["clusters"]["east"]["server"] = server
        entry = {"name": "east", "cluster": config["clusters"]["east"]}
        kubeconfig.write({"clusters": [entry]}, sites.kai.file)
        done = sites.kai("get", "queues", "--context", "east,west")
    assert done.exit_code == 0
    assert "team-west" in done.stdout
    assert "context east is not shown" in done.stderr


def test_where_none_answers_the_command_fails_and_says_of_each_why(sites: Sites) -> None:
    for server in sites.servers.values():
        server.stop()
    done = sites.kai("get", "queues", "--context", "east,west")
    assert done.exit_code == 1
    assert "none of the contexts answers" in done.output
    assert "east: " in done.output and "west: " in done.output


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["get", "queues", "--context", "east,north"], 2, "north"),
        (["get", "queues", "--context", "east,west", "-o", "name"], 2, "-o json"),
        (["get", "queues", "nobody", "--context", "east,west"], 3, "'nobody' does not exist"),
        (["queue", "pause", "team-east", "--context", "east,west"], 2, "east,west"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    sites: Sites, args: list[str], code: int, words: str
) -> None:
    done = sites.kai(*args)
    assert done.exit_code == code
    assert words in done.output
    queue = sites.clusters["east"].store.get(r.QUEUE, "team-east")
    assert "annotations" not in queue["metadata"]


def test_a_context_whose_name_has_a_comma_is_one(sites: Sites) -> None:
    server = sites.servers["east"]
    kubeconfig.write(server.kubeconfig("east,west"), sites.kai.file)
    assert lines(sites.kai.ok("get", "queues", "--context", "east,west"))[0][0] == "NAME"


def test_a_watch_goes_on_when_one_goes_down(sites: Sites) -> None:
    command = [sys.executable, "-c", "from kai_ray.cli import main; main()"]
    watch = subprocess.Popen(
        [*command, "get", "queues", "--context", "east,west", "-w", "team-*"],
        env={"KAI_KUBECONFIG": str(sites.kai.file), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None and watch.stderr is not None
    try:
        first = [watch.stdout.readline().split()[:2] for _ in range(3)]
        assert first[1:] == [["east", "team-east"], ["west", "team-west"]]
        sites.servers["east"].stop()
        assert watch.stderr.readline().startswith("context east is not shown")
        spec = {"spec": {"resources": {"gpu": {"quota": 6}}}}
        sites.clusters["west"].store.patch(r.QUEUE, "team-west", spec)
        while "6" not in (changed := watch.stdout.readline().split()):
            assert changed[:2] == ["west", "team-west"]  # it gets its fair share meanwhile
    finally:
        watch.kill()
        watch.communicate()

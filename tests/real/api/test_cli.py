"""A user's day with `kai` against a real API server: queue, plan, submit, get, explain, job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kai_ray.cli.root import root
from kai_ray.cluster import kube
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound
from kai_ray.manager import Manager
from tests.real.api.work import job, pods_of, until
from tests.real.control_plane import ControlPlane

ORG, TEAM = "cli-org", "cli-team"


@pytest.fixture
def running(ours: ControlPlane) -> Iterator[Manager]:
    port = kube.connect(str(ours.kubeconfig))
    with Manager(port) as manager:
        yield manager
    port.close()
    for queue in (TEAM, ORG):
        try:
            ours.port.delete(r.QUEUE, queue)
        except NotFound:
            continue


def test_a_day_with_kai(
    ours: ControlPlane,
    real_namespace: str,
    gpu_nodes: Callable[..., list[str]],
    running: Manager,
    tmp_path: Path,
) -> None:
    (node,) = gpu_nodes(1, 4, prefix="cli")
    space = real_namespace

    def kai(*args: str, code: int = 0) -> str:
        where = ["--kubeconfig", str(ours.kubeconfig), "-n", space]
        done = CliRunner().invoke(root, [*where, *args], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done.output

    def listed(*args: str) -> list[dict[str, Any]]:
        return json.loads(kai(*args, "-o", "json"))["items"]

    def file(name: str, pods: int) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job(name, space, pods)))
        return str(path)

    kai("queue", "create", ORG, "--gpu", "4")
    kai("queue", "create", TEAM, "--parent", ORG, "--gpu", "2")
    kai("queue", "set", TEAM, "--gpu", "4")
    assert ours.port.get(r.QUEUE, TEAM)["spec"]["resources"]["gpu"]["quota"] == 4
    assert TEAM in kai("get", "queues")

    assert "3" in kai("plan", file("one", 3))
    kai("submit", "--queue", TEAM, "--wait", "started", "--timeout", "60", file("one", 3))
    assert len(pods_of(ours.port, space, "one")) == 3
    assert "one" in kai("get", "jobs")
    assert "Running" in kai("describe", "job", "one")
    assert node in kai("get", "nodes")
    until(lambda: "3" in kai("describe", "queue", TEAM))

    kai("submit", "--queue", TEAM, file("two", 2))
    until(lambda: len(pods_of(ours.port, space, "two")) == 2)
    # One GPU is free, and two are needed at once.
    until(lambda: "gpu" in kai("explain", "two").lower())
    told = json.loads(kai("explain", "two", "-o", "json"))
    assert told

    kai("job", "suspend", "one")
    until(lambda: all(p["spec"].get("nodeName") for p in pods_of(ours.port, space, "two")))
    assert ours.port.get(r.JOB, "one", space)["spec"]["suspend"] is True
    kai("job", "delete", "two")
    kai("job", "resume", "one")
    until(lambda: all(p["spec"].get("nodeName") for p in pods_of(ours.port, space, "one")))
    kai("queue", "pause", TEAM)
    assert "aused" in kai("describe", "queue", TEAM)
    kai("describe", "job", "nobody", code=3)
    kai("job", "delete", "one")
    until(lambda: not pods_of(ours.port, space, "one"))
    until(lambda: not ours.port.list(r.POD_GROUP, space).items)
    kai("queue", "delete", TEAM, ORG)
    assert str(ours.url) in kai("version")

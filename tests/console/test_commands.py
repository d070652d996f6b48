"""The commands that serve a console, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.rest import RestServer
from kai_ray.manager import rights
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import Client

PROGRAM = [sys.executable, "-c", "from kai_ray.cli import main; main()"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if "KUBE" not in k}
    return kept | {"HOME": str(tmp_path), "KAI_HOME": str(tmp_path / "kai"), "NO_COLOR": "1"}


@contextmanager
def running(env: dict[str, str], *args: str, until: str = "Ctrl-C") -> Iterator[str]:
    """What a command says until it is ready; it ends cleanly when it is told to."""
    process = subprocess.Popen(
        [*PROGRAM, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if until in line:
                break
        assert until in said, said
        yield said
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=30)
        assert process.returncode == 0, rest
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def client(said: str) -> Client:
    """By the address that a command has printed."""
    line = next(line for line in said.splitlines() if line.strip().startswith("console"))
    url, _, token = line.split()[-1].partition("#token=")
    return Client(int(url.rstrip("/").rpartition(":")[2]), token)


def eventually(see: Callable[[], Any], within_s: float = 20) -> Any:
    end = time.monotonic() + within_s
    while not (found := see()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.slow
def test_kai_up_prints_its_console_and_kai_console_finds_it(
    env: dict[str, str], tmp_path: Path
) -> None:
    state = str(tmp_path / "state")
    with running(env, "up", "--nodes", "1x4", "--state", state, "--price", "2") as said:
        up = client(said)
        assert up.get("/overview")["gpus"]["total"] == 4
        note = tmp_path / "kai" / "up.json"
        assert (note.stat().st_mode & 0o777) == 0o600
        printed = subprocess.run(
            [*PROGRAM, "console"], env=env, capture_output=True, text=True, timeout=60
        )
        assert json.loads(note.read_text())["console"] in printed.stdout
        assert up.token in printed.stdout
    with running(env, "up", "--nodes", "1x4", "--state", state) as said:
        again = client(said)
        assert (again.port, again.token) == (up.port, up.token), "bookmarks go on"


@pytest.mark.slow
def test_kai_console_shows_several_clusters_of_which_one_is_down(
    env: dict[str, str], tmp_path: Path
) -> None:
    with EmbeddedCluster(ClusterConfig.short("2x8")) as one, RestServer(one.store) as rest:
        one.start()
        one.store.create(
            R.QUEUE,
            {
                "metadata": {"name": "vision"},
                "spec": {"resources": {r: {"quota": 1, "limit": -1} for r in ("gpu", "cpu")}},
            },
        )
        config = rest.kubeconfig("first")
        user, (cluster,) = config["users"][0]["name"], config["clusters"]
        config["clusters"].append({"name": "away", "cluster": {"server": "https://127.0.0.1:1"}})
        for name, of in (("second", cluster["name"]), ("gone", "away")):
            config["contexts"].append({"name": name, "context": {"cluster": of, "user": user}})
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(config))
        options = ("--kubeconfig", str(file), "--context", "first,gone,second")
        with running(env, "console", *options) as said:
            seen = client(said)
            assert seen.get("/overview")["gpus"]["total"] == 16
            rows = eventually(
                lambda: {
                    row["context"]: row
                    for row in seen.get("/clusters")["clusters"]
                    if row["state"] != "starting"
                }
            )
            eventually(lambda: seen.get("/overview?context=second")["state"]["ok"])
            rows = {row["context"]: row for row in seen.get("/clusters")["clusters"]}
            assert [row["state"] for row in rows.values()] == ["ok", "down", "ok"]
            assert "127.0.0.1:1" in rows["gone"]["message"] and rows["gone"]["gpus"] is None
            assert rows["second"]["gpus"]["total"] == 16
            assert not any(q["mayEdit"] for q in rows["second"]["queues"])
            refused = seen.write("PATCH", "/queues/vision?context=second", {"priority": 1})
            assert refused.status == 403 and "read-only" in refused.error["message"]
            assert seen.write("PATCH", "/queues/vision", {"priority": 5}).status == 200
        assert one.store.get(R.QUEUE, "vision")["spec"]["priority"] == 5


@pytest.mark.slow
def test_kai_run_serves_a_console_for_the_clusters_users(
    env: dict[str, str], tmp_path: Path
) -> None:
    config = ClusterConfig.short("1x8")
    tokens = {"of-the-scheduler": "root", "of-a-viewer-1234": "ada"}
    nodes = EmbeddedCluster(config, scheduling=False)
    with nodes, RestServer(nodes.store, tokens=tokens) as rest:
        nodes.start()
        file = rest.write_kubeconfig(tmp_path / "config")
        options = ("--kubeconfig", str(file), "--health", "", "--console", "127.0.0.1:0")
        with running(env, "run", *options, until="console ") as said:
            (line,) = [x for x in said.splitlines() if x.strip().startswith("console")]
            seen = Client(int(line.rstrip("/").rpartition(":")[2]), "of-a-viewer-1234")
            eventually(lambda: seen.get("/session")["contexts"][0]["state"] == "ok")
            assert (seen.get("/session")["user"], seen.get("/session")["mode"]) == (
                "ada",
                "cluster",
            )
            assert seen.get("/overview")["gpus"]["total"] == 8
            assert eventually(lambda: seen.get("/overview")["cycle"])
            assert Client(seen.port, "nobodys-token").send("GET", "/api/v1/overview").status == 401


def test_kai_run_without_a_scheduler_has_nothing_to_show(
    env: dict[str, str], tmp_path: Path
) -> None:
    with EmbeddedCluster(ClusterConfig.short("1x1")) as one, RestServer(one.store) as rest:
        file = rest.write_kubeconfig(tmp_path / "config")
        done = subprocess.run(
            [
                *PROGRAM,
                "run",
                "--kubeconfig",
                str(file),
                "--components",
                "admission",
                "--webhook",
                "127.0.0.1:0",
                "--health",
                "",
                "--console",
                "127.0.0.1:0",
            ],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2 and "--console" in done.stderr


def test_the_rights_of_the_console_are_printed() -> None:
    from click.testing import CliRunner

    from kai_ray.cli.root import root

    plain = CliRunner().invoke(root, ["rights"]).output
    more = CliRunner().invoke(root, ["rights", "--console"]).output
    assert "tokenreviews" not in plain and "tokenreviews" in more
    for role in rights.queue_roles("kai-ray"):
        assert role["metadata"]["name"] in more

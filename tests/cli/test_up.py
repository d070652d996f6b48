"""`kai up` as a process of its own: found by other commands, ended cleanly, alive after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-c", "from kai_ray.cli import main; main()"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if "KUBE" not in k}
    return kept | {"HOME": str(tmp_path), "KAI_HOME": str(tmp_path / "kai"), "NO_COLOR": "1"}


def kai(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *args], env=env, capture_output=True, text=True, timeout=60)


@contextmanager
def up(env: dict[str, str], *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `kai up` and what it said until it was ready."""
    process = subprocess.Popen(
        [*PROGRAM, "up", *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if line.startswith("Ctrl-C"):
                break
        assert "Ctrl-C" in said, said
        yield process, said
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    rest, _ = process.communicate(timeout=30)
    return process.returncode, rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_is_found_by_other_commands_and_ends_cleanly(
    env: dict[str, str], number: int
) -> None:
    with up(env, "--nodes", "3x4") as (process, said):
        assert "3 x 4 GPUs" in said
        facts = json.loads(kai(env, "version", "-o", "json").stdout)
        assert facts["kubeconfig"] == "kai up"
        assert facts["server"] in said
        assert len(kai(env, "get", "nodes", "-o", "name").stdout.split()) == 3
        second = kai(env, "up")
        assert second.returncode == 4 and str(process.pid) in second.stderr
        code, rest = end(process, number)
    assert (code, rest.strip()) == (0, "stopped")
    assert kai(env, "get", "nodes").returncode == 1
    assert not (Path(env["KAI_HOME"]) / "up.json").exists()


def test_a_cluster_with_state_goes_on_after_a_kill(env: dict[str, str], tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with up(env, *state) as (process, _):
        server = json.loads(kai(env, "version", "-o", "json").stdout)["server"]
        done = kai(env, "queue", "create", "robots", "--gpu", "3")
        assert done.returncode == 0, done.stderr
        process.kill()
        process.wait()
    assert kai(env, "get", "queues").returncode == 1
    with up(env, *state) as (process, _):
        assert json.loads(kai(env, "version", "-o", "json").stdout)["server"] == server
        shown = json.loads(kai(env, "get", "queue", "robots", "-o", "json").stdout)
        assert shown["spec"]["resources"]["gpu"]["quota"] == 3
        assert len(kai(env, "get", "nodes", "-o", "name").stdout.split()) == 4
        assert end(process, signal.SIGINT)[0] == 0


def test_one_with_a_name_runs_beside_the_first(env: dict[str, str]) -> None:
    beside = ("--nodes", "2x4", "--name", "west")
    with up(env, "--nodes", "1x8") as (first, _), up(env, *beside) as (second, said):
        assert "context     west" in said
        assert len(kai(env, "get", "nodes").stdout.splitlines()) == 2  # the first is meant
        both = kai(env, "get", "nodes", "--context", "kai-up,west").stdout.splitlines()
        assert [line.split()[0] for line in both] == ["CONTEXT", "kai-up", "west", "west"]
        first.kill()
        first.wait()
        env = {**env, "KUBECONFIG": f"{env['KAI_HOME']}/kubeconfig"}
        left = kai(env, "get", "nodes", "--context", "kai-up,west")
        assert left.returncode == 0 and "context kai-up is not shown" in left.stderr
        assert [line.split()[0] for line in left.stdout.splitlines()][1:] == ["west", "west"]
        assert end(second, signal.SIGTERM)[0] == 0


def test_a_port_that_is_taken_is_named(env: dict[str, str]) -> None:
    with up(env) as (_, said):
        port = said.partition("127.0.0.1:")[2].split()[0]
        other = str(Path(env["HOME"]) / "other")
        done = kai(env, "up", "--port", port, "--kubeconfig-out", other)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr and "--port" in done.stderr


@pytest.mark.parametrize("factor", ["0", "-1", "nan"])
def test_a_factor_that_slows_nothing_is_refused(env: dict[str, str], factor: str) -> None:
    done = kai(env, "up", "--slow", factor)
    assert done.returncode == 2
    assert "runTimeFactor" in done.stderr and "such as 20" in done.stderr


def test_a_bad_cluster_file_is_refused_by_its_field(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("nodePools:\n  - name: a\n    count: -1\n")
    done = kai(env, "up", "--cluster", str(file))
    assert done.returncode == 2
    assert "nodePools[0].count" in done.stderr

"""`kai top` in a terminal: it shows the cluster, follows it, obeys keys, and leaves no trace."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import kubeconfig
from kai_ray.cluster import resources as r
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.cli.conftest import Kai
from tests.cli.top.terminal import Terminal

pytestmark = pytest.mark.slow

DOWN, UP, ENTER, ESC = "\x1b[B", "\x1b[A", "\r", "\x1b"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, RestServer]]:
    """Two nodes of 4 GPUs; job `big` of team a holds one, `late` of team b waits."""
    cluster = EmbeddedCluster(ClusterConfig.short("2x4"))
    with cluster:
        cluster.start()
        server = cluster.serve()
        for name, quota in (("a", 4), ("b", 2)):
            share = {"quota": quota, "limit": quota, "overQuotaWeight": 1}
            spec = {"resources": {"gpu": share, "cpu": {"quota": -1}, "memory": {"quota": -1}}}
            cluster.store.create(r.QUEUE, {"metadata": {"name": f"team-{name}"}, "spec": spec})
        cluster.store.create(r.JOB, job("big", "team-a", 4))
        cluster.store.create(r.JOB, job("late", "team-b", 3))
        kubeconfig.write(server.kubeconfig("here"), tmp_path_factory.mktemp("top") / "config")
        yield cluster, server


def job(name: str, queue: str, gpus: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus}
    template = {
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "a", "resources": {"limits": limits}}],
        }
    }
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {"kai.scheduler/queue": queue},
        "annotations": {"kai.scheduler/sim-run-time": "1h"},
    }
    return {"metadata": meta, "spec": {"parallelism": 1, "completions": 1, "template": template}}


@pytest.fixture
def env(world: tuple[EmbeddedCluster, RestServer], tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "config"
    kubeconfig.write(world[1].kubeconfig("here"), file)
    kept = {name: value for name, value in os.environ.items() if "KUBE" not in name}
    return {**kept, "KAI_KUBECONFIG": str(file), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def top(env: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*args: str, **options: Any) -> Terminal:
        given = {**env, **options.pop("env", {})}
        started.append(Terminal(["top", "--interval", "0.3", *args], given, **options))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def cells(terminal: Terminal, name: str) -> list[str]:
    (line,) = (line for line in terminal.lines[2:] if re.match(rf"\s*{name}\b", line))
    return line.split()


def test_queues_jobs_and_nodes_are_a_key_apart(top: Callable[..., Terminal]) -> None:
    it = top()
    it.shows("1 Queues", "here", "GPUs 4/8 held", "1 running, 1 waiting", "2 nodes")
    it.until(lambda t: cells(t, "team-a")[2:4] == ["4", "4"])
    it.press("2")
    it.shows("big", "late", "OverLimit")
    assert "team-b" in cells(it, "late")
    it.until(lambda t: re.search(r"\bJob +4 +\d+% +1/1 +Running", t.text))  # how well it uses them
    it.press("3")
    it.shows("node-0", "■■■■", "□□□□")
    it.press("\t")
    it.shows("QUOTA")
    it.press("q")
    assert it.ended() == 0


def test_what_changes_is_seen_without_a_key(
    world: tuple[EmbeddedCluster, RestServer], top: Callable[..., Terminal]
) -> None:
    store = world[0].store
    it = top()
    it.press("2")
    it.shows("big", "late")
    store.create(r.JOB, job("fresh", "team-b", 2))
    try:
        it.until(lambda t: "fresh" in t.text and "Running" in cells(t, "fresh"))
    finally:
        store.delete(r.JOB, "fresh", "default")
    it.until(lambda t: "fresh" not in t.text)


def test_the_selection_stays_on_its_job_when_others_come(
    world: tuple[EmbeddedCluster, RestServer], top: Callable[..., Terminal]
) -> None:
    store = world[0].store
    it = top()
    it.press("2ssss")  # by name
    it.shows("sort: name")
    it.press(DOWN)
    it.until(lambda t: t.selected.startswith("late"))
    store.create(r.JOB, job("early", "team-b", 3))
    try:
        it.shows("early")
        it.until(lambda t: t.selected.startswith("late"))
    finally:
        store.delete(r.JOB, "early", "default")


def test_one_goes_from_a_queue_to_its_jobs_to_why_one_waits_and_back(
    top: Callable[..., Terminal],
) -> None:
    it = top()
    it.shows("team-b")
    it.press("G")
    it.until(lambda t: t.selected.startswith("team-b"))
    it.press(ENTER)
    it.shows("Jobs of queue team-b", "late")
    assert "big" not in it.text
    it.press(ENTER)
    it.shows("Why it waits:", "Status:", "Waiting")
    it.press(ESC)
    it.shows("Jobs of queue team-b")
    it.press(ESC)
    it.until(lambda t: t.selected.startswith("team-b"))


def test_a_node_leads_to_the_jobs_on_it(top: Callable[..., Terminal]) -> None:
    it = top()
    it.press("3s")  # by what is free: the full node is last
    it.shows("sort: free")
    it.press("G" + ENTER)
    it.shows("Jobs on node-", "big")
    assert "late" not in it.text


def test_a_filter_leaves_what_contains_it(top: Callable[..., Terminal]) -> None:
    it = top()
    it.press("2")
    it.shows("big", "late")
    it.press("/LaT")
    it.until(lambda t: "big" not in t.text and "late" in t.text)
    it.press("x")
    it.shows("nothing matches 'LaTx'")
    it.press("\x7f" + ENTER)
    it.shows("1 rows", "/LaT")
    it.press(ESC)
    it.shows("big")


def test_a_small_terminal_and_one_that_grows(top: Callable[..., Terminal]) -> None:
    it = top(size=(40, 6))
    it.shows("1 Queues", "default-queue")
    assert all(len(line) <= 40 for line in it.lines)
    it.resize(120, 24)
    it.shows("team-b", "default-queue", "STATE")


def test_keys_are_explained(top: Callable[..., Terminal]) -> None:
    it = top()
    it.press("?")
    it.shows("Enter", "sort by the next", "fair share")
    it.press(ESC)
    it.shows("QUOTA")


def test_garbage_is_no_key(top: Callable[..., Terminal]) -> None:
    it = top()
    it.shows("1 Queues")
    os.write(it._main, bytes(range(128, 256)) + b"\x00\x1b[99;99;99u\x1b]0;x\x07Z")
    it.press("2")
    it.shows("NAMESPACE")


@pytest.mark.parametrize("end", ["q", "interrupt", "terminate"])
def test_the_terminal_is_left_as_it_was(top: Callable[..., Terminal], end: str) -> None:
    it = top()
    it.shows("1 Queues")
    if end == "q":
        it.press("q")
        assert it.ended() == 0
    elif end == "interrupt":
        it.press("\x03")
        assert it.ended() == 130
    else:
        it.process.send_signal(signal.SIGTERM)
        assert it.ended() == 143
    assert it.settings() == it.before
    left, back = b"\x1b[?1049l", b"\x1b[?25h"  # the second screen, the cursor
    assert left in it.raw[-64:] and back in it.raw[-64:]


def test_without_colour_and_without_unicode(top: Callable[..., Terminal]) -> None:
    it = top(env={"NO_COLOR": "1", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    it.press("3")
    it.shows("node-0", "####", "....")
    colours = {cell.fg for line in it.screen.buffer.values() for cell in line.values()}
    assert colours == {"default"}


def test_where_nobody_can_press_a_key_the_tables_are_printed_once(env: dict[str, str]) -> None:
    done = Kai(Path(env["KAI_KUBECONFIG"])).ok("top")
    assert "GPUs 4/8 held" in done
    for word in ("QUOTA", "NAMESPACE", "FREE", "late", "node-1", "4/4"):
        assert word in done


def test_a_server_that_goes_away_is_told_and_the_last_picture_stays(tmp_path: Path) -> None:
    with EmbeddedCluster(ClusterConfig.short("1x2")) as cluster:
        cluster.start()
        server = cluster.serve()
        file = tmp_path / "config"
        kubeconfig.write(server.kubeconfig("gone"), file)
        env = {**os.environ, "KAI_KUBECONFIG": str(file), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        it = Terminal(["top", "--interval", "0.2"], env)
        try:
            it.press("3")
            it.shows("node-0")
            server.stop()
            it.until(lambda t: "shown as of" in t.text, seconds=40)
            assert "node-0" in it.text
            it.press("2")
            it.shows("NAMESPACE")
            it.press("q")
            assert it.ended() == 0
        finally:
            it.close()

"""The first hour of README.md, command by command: a newcomer's must be a good one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import CLUSTER, EXAMPLES, Kai

ROOT = EXAMPLES.parent


def commands() -> list[list[str]]:
    """The `kai` lines of the tour, without their comments; `kai up` is the test's own."""
    text = (ROOT / "README.md").read_text()
    tour = re.search(r"^## A first hour$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert tour is not None
    lines = re.findall(r"^    kai (.*)$", tour[1], re.MULTILINE)
    return [words for line in lines if (words := shlex.split(line, comments=True))[0] != "up"]


def test_the_tour_is_long_enough_to_be_one() -> None:
    kinds = {words[0] for words in commands()}
    assert kinds >= {"plan", "submit", "get", "describe", "explain", "queue", "job"}


@pytest.fixture(scope="module")
def cluster(history: Path) -> Iterator[EmbeddedCluster]:
    """Slowed as the tour's own, though less: what it says of a job must hold for a while."""
    config = ClusterConfig.parse(CLUSTER).slowed(5)
    with EmbeddedCluster(config, history=history) as embedded:
        embedded.start()
        yield embedded


#: What some of them must say, if not at once then soon.
SAYS = {
    "get queues": "language",
    "describe job finetune": "Gangs:",
    "explain resnet": "kai queue set robots --gpu-limit",
    "get jobs resnet": "Running|Succeeded",
    "get queues vision": r"\b32 .*\b24\b",
    "explain segment": "Evicted for Job index",
    "report job segment --price 2.5": r"Evictions: +[1-9]",
}


def test_every_command_of_the_first_hour_works_in_its_order(
    kai: Kai, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    said: list[str] = []
    for words in commands():
        line = " ".join(words)
        said.append(line)
        if line in SAYS:
            kai.eventually(lambda out, line=line: bool(re.search(SAYS[line], out)), *words)
        else:
            kai.ok(*words)
    assert SAYS.keys() <= set(said)

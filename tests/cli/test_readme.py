"""The first hour of README.md, command by command: a newcomer's must be a good one."""

from __future__ import annotations

import re
import shlex

import pytest

from .conftest import EXAMPLES, Kai

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


#: What some of them must say, if not at once then soon.
SAYS = {
    "get queues": "language",
    "describe job finetune": "Gangs:",
    "explain resnet": "kai queue set robots --gpu-limit",
    "report job segment --price 2.5": "GPU hours:",
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
            kai.eventually(lambda out, line=line: SAYS[line] in out, *words)
        else:
            kai.ok(*words)
    assert SAYS.keys() <= set(said)
    kai.eventually(lambda out: "Running" in out or "Succeeded" in out, "get", "jobs", "resnet")

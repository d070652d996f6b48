"""Random clusters over many cycles break no invariant; the checkers see what is planted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.scheduler import Plan
from kai_ray.scheduler.snapshot import Snapshot, TaskState
from tests.invariants.__main__ import main, violations
from tests.invariants.checks import Check, GangsWhole, NoEvictionCycle, NoOvercommit
from tests.invariants.clusters import setup
from tests.invariants.run import Cluster, run


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_clusters_break_no_invariant(first: int) -> None:
    broken = {seed: found for seed in range(first, first + 20) if (found := violations(seed))}
    assert not broken, "\n".join(
        f"python -m tests.invariants --seeds 1 --first {seed}: {found[0]}"
        for seed, found in broken.items()
    )


@pytest.mark.parametrize("seed", [1236, 2545, 10054, 13174, 19542])
def test_what_once_broke_an_invariant_does_no_more(seed: int) -> None:
    assert not violations(seed)


class Planted(Check):
    """Does harm in a cycle, so that a checker has something to see."""

    def __init__(self, harm: str) -> None:
        self.harm = harm

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        party = max(cluster.parties, key=lambda p: p.work.minimum, default=None)
        if party is None:
            return
        if self.harm == "double":
            for member in party.members:
                member.state, member.node = TaskState.RUNNING, cluster.nodes[0].name
        elif self.harm == "torn" and party.work.minimum > 1:
            for at, member in enumerate(party.members):
                member.state = TaskState.RELEASING if at else TaskState.RUNNING
                member.node, member.since = cluster.nodes[0].name, cluster.cycle
        elif self.harm == "evict":
            cluster.evictions.append((cluster.cycle, f"{party.work.name}-0", ""))
        yield from ()


@pytest.mark.parametrize(
    ("harm", "check"),
    [("double", NoOvercommit), ("torn", GangsWhole), ("evict", NoEvictionCycle)],
)
def test_planted_harm_is_seen(harm: str, check: type[Check]) -> None:
    seen = [seed for seed in range(20) if run(setup(seed), [Planted(harm), check()])]
    assert seen


def test_a_failing_seed_prints_the_command_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "tests.invariants.__main__.violations", lambda seed: ["broken"] * (seed == 3)
    )
    assert main(["--seeds", "5"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["python -m tests.invariants --seeds 1 --first 3", "    broken"]

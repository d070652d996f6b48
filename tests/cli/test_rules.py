"""The examples of each rule: who leaves, moves, shares or stays together, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from kai_ray.cli.acts import ACTS
from kai_ray.cluster import resources as R
from kai_ray.sight import node_list as node_view
from kai_ray.sight.jobs import listing as view
from kai_ray.sim.cluster_file import RACK
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import EXAMPLES
from .test_examples import cluster, submit

RULES = EXAMPLES / "rules"


class Played:
    """Submits the numbered files of a rule, each when the work of the one before it runs."""

    def __init__(self, world: EmbeddedCluster) -> None:
        self.world = world
        self.away: dict[str, list[str]] = {}

    def jobs(self) -> dict[str, view.Job]:
        found = {j.name: j for j in view.read(self.world.store, None)}
        for job in found.values():
            if job.evicted is not None and job.evicted.rule not in self.away.get(job.name, []):
                self.away.setdefault(job.name, []).append(job.evicted.rule)
        return found

    def until_running(self, names: set[str], within_s: float = 60) -> None:
        def up() -> bool:
            jobs = self.jobs()
            return all(n in jobs and jobs[n].status in ("Running", "Succeeded") for n in names)

        assert self.world.run_until(up, within_s), {n: j.status for n, j in self.jobs().items()}

    def play(self, rule: str) -> None:
        for file in sorted((RULES / rule).glob("*.yaml")):
            self.until_running({name for _, name in submit(self.world, file)})

    def events(self, name: str) -> dict[str, str]:
        return {
            e["reason"]: e["message"]
            for e in self.world.store.list(R.EVENT, "default").items
            if e["involvedObject"]["name"] == name
        }


@pytest.fixture
def played() -> Iterator[Played]:
    with cluster() as world:
        submit(world, EXAMPLES / "queues.yaml")
        yield Played(world)


def test_every_rule_has_an_act_and_its_files() -> None:
    assert {a.folder for a in ACTS} == {p.name for p in RULES.iterdir() if p.is_dir()}


def test_a_queue_takes_back_what_it_lent(played: Played) -> None:
    played.play("reclaim")
    assert played.jobs()["segment"].status == "Evicted"
    assert played.jobs()["depth"].status == "Running", "the older borrower stays"
    assert "Job index of queue search" in played.events("segment")["Reclaimed"]
    assert "2 pods of PyTorchJob segment leave" in played.events("index")["VictimsEvicted"]
    played.until_running({"segment"})
    assert played.away == {"segment": ["Reclaimed"]}
    assert played.jobs()["segment"].evicted is None, "it is back"


def test_a_higher_priority_goes_first_in_its_queue(played: Played) -> None:
    played.play("preempt")
    assert played.jobs()["pretrain"].status == "Evicted"
    assert "priority is higher" in played.events("pretrain")["Preempted"]
    played.until_running({"pretrain"})
    assert played.away == {"pretrain": ["Preempted"]}
    assert len(played.jobs()["pretrain"].nodes) == 4


def test_a_job_moves_so_that_a_larger_one_fits(played: Played) -> None:
    played.play("consolidation")
    (moved,) = played.away
    assert played.away[moved] == ["Consolidated"]
    played.until_running({moved})
    jobs = played.jobs()
    assert jobs["probe-1"].nodes == jobs["probe-2"].nodes, "both on one node now"
    assert jobs["merge"].nodes != jobs["probe-1"].nodes
    assert "archive" not in played.away


def test_two_notebooks_share_one_card(played: Played) -> None:
    played.play("sharing")
    (card,) = [c for n in node_view.read(played.world.store) for c in n.cards]
    assert card.pods == ("notebook-a", "notebook-b")
    assert card.used == 1.0
    jobs = played.jobs()
    assert jobs["notebook-a"].gpus == 0.5
    assert jobs["notebook-a"].nodes == jobs["notebook-b"].nodes


def test_a_gang_stays_in_one_rack(played: Played) -> None:
    played.play("rack")
    jobs = played.jobs()
    nodes = {n["metadata"]["name"]: n for n in played.world.store.list(R.NODE).items}
    racks = {nodes[n]["metadata"]["labels"][RACK] for n in jobs["allgather"].nodes}
    assert len(jobs["allgather"].nodes) == 2
    assert len(racks) == 1
    assert racks != {nodes[n]["metadata"]["labels"][RACK] for n in jobs["occupant"].nodes}


def test_without_the_rack_rule_it_would_be_in_two(played: Played) -> None:
    """The example shows something: plain packing takes what is next to the occupant."""
    submit(played.world, RULES / "rack" / "1-occupant.yaml")
    played.until_running({"occupant"})
    (loose,) = yaml.safe_load_all((RULES / "rack" / "2-gang.yaml").read_text())
    loose["metadata"]["namespace"] = "default"
    del loose["metadata"]["annotations"]["kai.scheduler/topology-required-placement"]
    played.world.store.create(R.PYTORCH_JOB, loose)
    played.until_running({"allgather"})
    assert "gpu-1" in played.jobs()["allgather"].nodes

"""A job that an operator makes another one of is called what its user called it, everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.cluster.wrappers import wrapper
from kai_ray.history.reader import HistoryReader
from kai_ray.report.job import find
from kai_ray.sight.jobs import listing
from kai_ray.sight.notify.message import Message
from kai_ray.sight.notify.notifier import Notifier
from tests.sight.worlds import World

EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"


def train_job(w: World, queue: str, seconds: int = 500, **notes: str) -> Object:
    """The example's: two nodes with eight GPUs each."""
    runtime, job = yaml.safe_load_all((EXAMPLES / "trainjob.yaml").read_text())
    w.cluster.store.create(R.CLUSTER_TRAINING_RUNTIME, runtime)
    job["metadata"] |= {
        "namespace": "default",
        "labels": {L.QUEUE: queue},
        "annotations": {L.RUN_TIME: f"{seconds}s", **notes},
    }
    return w.cluster.store.create(R.TRAIN_JOB, job)


def test_the_life_of_a_train_job_is_not_told_as_that_of_its_job_set(tmp_path: Path) -> None:
    with World("2x8", history=tmp_path / "history.sqlite") as w:
        w.queue("team", 16)
        made = train_job(w, "team", seconds=100)
        w.run(400)
        assert {(e.kind, e.uid) for e in w.told} == {("TrainJob", made["metadata"]["uid"])}
        assert w.words("finetune") == ["created", "grouped", "started", "ready", "ended"]
        (decision,) = w.sight.decisions.last()
        assert [placed.job for placed in decision.bound] == ["TrainJob default/finetune"]
        (listed,) = listing.read(w.cluster.client, None)
        assert (listed.kind, listed.name) == ("TrainJob", "finetune")
        w.run(60)
        reader = HistoryReader(tmp_path / "history.sqlite")
        assert [row.kind for row in reader.jobs()] == ["TrainJob"]
        for kind in ("", "TrainJob"):
            assert find(reader, "default", "finetune", kind).uid == made["metadata"]["uid"]
        assert [row.key for row in reader.spent(0.0, w.now, ("kind",))] == [("TrainJob",)]


def test_who_gives_way_to_a_train_job_and_whom_it_gives_way_to_read_its_name() -> None:
    said: list[Message] = []

    class Post:
        def send(self, target: str, message: Message) -> None:
            said.append(message)

    with World("2x8") as w:
        w.cluster.runtime.add(_named(Notifier(w.sight, Post()), "second notifier"))
        w.queue("rich", 0)
        w.queue("poor", 16)
        w.job("borrower", "rich", pods=16, seconds=5000)
        w.run(10)
        train_job(w, "poor", seconds=100, **{L.NOTIFY: "team"})
        w.run(60)
        (evicted,) = (e for e in w.life("borrower") if e.what == "evicted")
        assert evicted.for_whom == "TrainJob default/finetune"
        groups = w.cluster.store.list(R.POD_GROUP, "default").items
        assert "JobSet finetune" not in json.dumps(groups)
        assert "TrainJob finetune" in json.dumps(groups)
        assert {m.workload for m in said if m.name == "finetune"} == {"TrainJob"}


def test_a_train_job_that_is_suspended_is_told_so() -> None:
    with World("2x8") as w:
        w.queue("team", 16)
        train_job(w, "team")
        w.run(20)
        w.cluster.store.patch(R.TRAIN_JOB, "finetune", {"spec": {"suspend": True}}, "default")
        w.run(60)
        assert w.words("finetune")[-1] == "suspended"
        w.cluster.store.patch(R.TRAIN_JOB, "finetune", {"spec": {"suspend": False}}, "default")
        w.run(60)
        assert w.words("finetune")[-2:] == ["resumed", "ready"]


def test_a_restart_finds_the_train_job_again(tmp_path: Path) -> None:
    """Whatever is listed first: PodGroups, JobSets or TrainJobs."""
    clock = VirtualClock()
    with World("2x8", state=tmp_path, clock=clock) as w:
        w.queue("team", 16)
        uid = train_job(w, "team")["metadata"]["uid"]
        w.run(90)
    with World("2x8", state=tmp_path, clock=clock) as again:
        again.run(90)
        assert {(e.kind, e.uid, e.replayed) for e in again.told} == {("TrainJob", uid, True)}
        (row,) = HistoryReader(tmp_path / "history.sqlite").jobs()
        assert (row.kind, row.state, row.starts) == ("TrainJob", "running", 1)


def test_the_run_of_a_schedule_is_a_job_of_its_own() -> None:
    with World("1x4") as w:
        w.queue("team", 4)
        job = w.job("template", "team", seconds=10)
        spec = {k: v for k, v in job["spec"].items() if k not in ("selector", "suspend")}
        w.cluster.store.create(
            R.CRON_JOB,
            {
                "metadata": {"name": "hourly", "namespace": "default"},
                "spec": {
                    "schedule": "* * * * *",
                    "jobTemplate": {
                        "metadata": {"labels": job["metadata"]["labels"]},
                        "spec": spec,
                    },
                },
            },
        )
        w.run(130)
        assert {e.kind for e in w.told} == {"Job"}
        assert any(e.name.startswith("hourly-") for e in w.told)


def _named(controller: Any, name: str) -> Any:
    controller.name = name
    return controller


def _object(name: str, *owners: tuple[str, str, bool]) -> Object:
    references = [
        {"apiVersion": "v1", "kind": kind, "name": above, "controller": leads}
        for kind, above, leads in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


@pytest.mark.parametrize(
    ("known", "top"),
    [
        ({"A a": _object("a", ("B", "b", True)), "B b": _object("b")}, "B b"),
        ({"A a": _object("a", ("B", "b", False)), "B b": _object("b")}, "A a"),
        ({"A a": _object("a", ("B", "b", True))}, "A a"),
        ({}, "A a"),
        ({"A a": _object("a", ("CronJob", "b", True)), "CronJob b": _object("b")}, "A a"),
        (
            {
                "A a": _object("a", ("B", "b", True)),
                "B b": _object("b", ("C", "c", True)),
                "C c": _object("c"),
            },
            "C c",
        ),
        ({"A a": _object("a", ("A", "a", True))}, "A a"),
    ],
)
def test_the_climb_ends_where_nothing_is_known(known: dict[str, Object], top: str) -> None:
    found = wrapper(("v1", "A", "default", "a"), lambda name: known.get(f"{name[1]} {name[3]}"))
    assert f"{found[1]} {found[3]}" == top

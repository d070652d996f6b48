"""What is told of a job from its first day to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Key
from tests.sight.worlds import World


def test_a_job_that_finds_room_is_told_from_its_making_to_its_end() -> None:
    with World() as w:
        w.queue("team", 8)
        uid = w.job("train", "team", pods=4, seconds=100)["metadata"]["uid"]
        w.run(300)
        life = w.life("train")
        assert [e.what for e in life] == ["created", "grouped", "started", "ready", "ended"]
        started, ended = life[2], life[-1]
        assert {e.uid for e in life} == {uid}
        assert (started.job, started.queue, started.user) == ("Job default/train", "team", "ada")
        assert (started.gpus, started.held, started.pods) == (4.0, 4.0, 4)
        assert sum(gpus for _, _, gpus in started.types) == 4.0
        assert set(started.nodes) <= {"node-0", "node-1"}
        assert (ended.reason, ended.held, ended.pods) == ("Succeeded", 0.0, 0)
        assert ended.at_s - started.at_s == pytest.approx(100, abs=3)


def test_a_job_that_waits_is_told_why_once_for_each_reason() -> None:
    with World("1x4") as w:
        w.queue("team", 4)
        w.job("first", "team", pods=4, seconds=50)
        w.run(5)
        w.job("second", "team", pods=3, seconds=50)
        w.run(20)
        (waits,) = (e for e in w.life("second") if e.what == "waits")
        assert waits.reason == "InsufficientGpu" and waits.message
        assert w.sight.queues.reasons == {("team", "InsufficientGpu"): 1}
        w.run(200)
        assert w.words("second")[-3:] == ["started", "ready", "ended"]
        assert w.sight.queues.reasons == {}


def test_a_job_that_has_to_leave_is_told_for_whom_and_by_which_rule() -> None:
    with World("2x4") as w:
        w.queue("rich", 4)
        w.queue("poor", 4)
        w.job("big", "rich", pods=8, seconds=500)
        w.run(10)
        w.job("small", "poor", pods=4, seconds=50)
        w.run(400)
        (evicted,) = (e for e in w.life("big") if e.what == "evicted")
        assert evicted.reason == "Reclaimed"
        assert evicted.for_whom == "Job default/small"
        assert (evicted.held, evicted.pods) == (0.0, 0)
        assert set(evicted.nodes) == {"node-0", "node-1"}
        assert "nominated" in w.words("small")
        # When the other has ended it is back, and says so.
        assert w.words("big")[-2:] == ["resumed", "ready"]
        (decision,) = (d for d in w.sight.decisions.last() if d.evicted)
        assert {(e.job, e.reason, e.for_job) for e in decision.evicted} == {
            ("Job default/big", "Reclaimed", "Job default/small")
        }


def test_a_job_that_gives_up_a_part_of_what_it_has_shrinks_and_grows() -> None:
    with World("2x4") as w:
        w.queue("rich", 4)
        w.queue("poor", 4)
        w.job("elastic", "rich", pods=8, least=1, seconds=1000, tries=9)
        w.run(10)
        w.job("small", "poor", pods=2, seconds=50)
        w.run(400)
        life = [e for e in w.life("elastic") if e.what in ("shrunk", "grew")]
        assert [(e.what, e.held) for e in life] == [("shrunk", 6.0), ("grew", 8.0)]
        assert (life[0].reason, life[0].for_whom) == ("Reclaimed", "Job default/small")
        assert "evicted" not in w.words("elastic")


def test_a_job_that_fails_ends_so() -> None:
    with World() as w:
        w.queue("team", 8)
        w.job("broken", "team", seconds=20, exit_code=1)
        w.run(200)
        assert w.life("broken")[-1].reason == "Failed"


def test_a_job_that_is_deleted_ends_so() -> None:
    with World() as w:
        w.queue("team", 8)
        w.job("short", "team", seconds=500)
        w.run(20)
        w.cluster.store.delete(R.JOB, "short", "default")
        w.run(60)
        ended = w.life("short")[-1]
        assert (ended.what, ended.reason, ended.held) == ("ended", "Deleted", 0.0)
        assert w.sight.lives.of_job(ended.uid) == []


def test_a_job_that_loses_its_pods_is_interrupted_and_comes_back() -> None:
    with World("2x4") as w:
        w.queue("team", 8)
        w.job("frail", "team", pods=2, seconds=1000, tries=9)
        w.run(20)
        for pod in w.cluster.store.list(R.POD, "default").items:
            w.cluster.store.delete(R.POD, pod["metadata"]["name"], "default")
        w.run(120)
        assert w.words("frail")[:4] == ["created", "grouped", "started", "ready"]
        assert "interrupted" in w.words("frail")
        assert w.words("frail")[-2:] == ["resumed", "ready"]


def test_a_job_that_its_user_suspends_is_told_so_and_not_ended() -> None:
    with World() as w:
        w.queue("team", 8)
        w.job("pause", "team", pods=2, seconds=1000)
        w.run(20)
        w.cluster.store.patch(R.JOB, "pause", {"spec": {"suspend": True}}, "default")
        w.run(60)
        assert w.words("pause")[-1] == "suspended"
        assert w.life("pause")[-1].held == 0.0
        w.cluster.store.patch(R.JOB, "pause", {"spec": {"suspend": False}}, "default")
        w.run(60)
        assert w.words("pause")[-2:] == ["resumed", "ready"]
        assert "ended" not in w.words("pause")


def test_a_restart_tells_again_what_it_finds_and_marks_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    with World(state=tmp_path, clock=clock) as w:
        w.queue("team", 8)
        w.job("long", "team", pods=2, seconds=1000)
        w.job("huge", "team", pods=9, seconds=1000)
        w.run(50)
        begun = w.life("long")[2].at_s
    with World(state=tmp_path, clock=clock) as again:
        again.run(30)
        assert all(e.replayed for e in again.told)
        found = {(e.name, e.what) for e in again.told}
        assert found == {
            ("long", "created"), ("long", "grouped"), ("long", "started"),
            ("huge", "created"), ("huge", "grouped"), ("huge", "waits"),
        }  # fmt: skip
        started = next(e for e in again.told if e.what == "started")
        assert started.at_s == pytest.approx(begun, abs=1)
        assert (started.held, started.pods) == (2.0, 2) and started.nodes
        again.run(2000)
        assert again.words("long")[-1] == "ended"


def test_a_listener_that_stumbles_takes_nobody_along() -> None:
    with World() as w:
        w.queue("team", 8)
        heard: list[str] = []

        def stumble(event: object) -> None:
            raise RuntimeError("no")

        w.sight.subscribe(stumble)
        end = w.sight.subscribe(lambda event: heard.append(event.what))
        w.job("one", "team", seconds=20)
        w.run(5)
        end()
        w.run(100)
        assert heard == ["created", "grouped", "started", "ready"]
        assert w.words("one")[-1] == "ended"


def test_a_warning_goes_to_the_listeners_of_a_job() -> None:
    with World() as w:
        w.queue("team", 8)
        w.job("idle", "team", seconds=500)
        w.run(10)
        (life,) = w.sight.lives.all()
        w.sight.lives.warn(life.key, "IdleGpus", "it has used its GPUs for 2 % of the time")
        w.sight.lives.warn(Key("default", "nobody"), "IdleGpus", "")
        assert [(e.what, e.reason) for e in w.told][-1] == ("warned", "IdleGpus")


def test_two_gangs_of_a_job_end_it_once() -> None:
    """A workload that two PodGroups name has ended when the last of them has."""
    with World() as w:
        w.queue("team", 8)
        note = "group: batch\nversion: v1\nkind: Job\nname: pair\nuid: 11111111-2222-3333-4444-5"
        for name in ("left", "right"):
            w.cluster.store.create(
                R.POD_GROUP,
                {
                    "metadata": {
                        "name": name,
                        "namespace": "default",
                        "annotations": {L.TOP_OWNER_METADATA: note},
                    },
                    "spec": {"queue": "team", "minMember": 1},
                },
            )
        w.run(5)
        assert [word for word in w.words("pair") if word != "waits"] == [
            "created",
            "grouped",
            "grouped",
        ]
        w.cluster.store.delete(R.POD_GROUP, "left", "default")
        w.run(5)
        assert "ended" not in w.words("pair")
        w.cluster.store.delete(R.POD_GROUP, "right", "default")
        w.run(5)
        assert w.words("pair").count("ended") == 1

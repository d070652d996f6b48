"""Who is told of what: jobs on the embedded cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import Clock, SystemClock, VirtualClock
from kai_ray.cluster.port import Key, Object
from kai_ray.sight.notify import NotifyConfig
from kai_ray.sight.notify.message import Message, line
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.control import objects
from tests.notify.webhooks import until, webhook

QUEUES = (("dept", ""), ("a", "dept"), ("b", "dept"))


class Office:
    """A cluster of one node with eight GPUs, and what its people are told."""

    def __init__(
        self,
        folder: Any = None,
        now_s: float = 1.8e9,
        *,
        clock: Clock | None = None,
        notify: NotifyConfig | None = None,
        gpu_use: bool = False,
    ) -> None:
        """With `notify`, messages go out."""
        raw: dict[str, Any] = {"nodePools": [{"name": "n", "count": 1, "gpus": 8}]}
        raw |= {"gpuUse": {"periodSeconds": 30}} if gpu_use else {}
        self.cluster = EmbeddedCluster(
            ClusterConfig.of(raw), clock or VirtualClock(now_s), folder, notify=notify
        )
        self.told: list[tuple[str, Message]] = []
        if notify is None:
            self.cluster.composition.delivery.send = lambda target, message: self.told.append(
                (target, message)
            )
        self.store = self.cluster.client
        for name, parent in QUEUES if not self.store.list(kinds.POD_GROUP).items else ():
            gpu = {"quota": 4, "limit": -1, "overQuotaWeight": 1}
            self.store.create(kinds.QUEUE, objects.queue(name, parent, gpu=gpu))

    def note(self, queue: str, **notes: str) -> None:
        self.store.patch(kinds.QUEUE, queue, {"metadata": {"annotations": _keys(notes)}})

    def job(self, name: str, queue: str, gpus: int, run: str = "1h", **notes: str) -> None:
        exits = notes.pop("exits", "0")
        sim = {"kai.scheduler/sim-run-time": run, "kai.scheduler/sim-exit-code": exits}
        limits = {"nvidia.com/gpu": str(gpus)}
        template: Object = {
            "metadata": {"annotations": sim},
            "spec": {
                "schedulerName": "kai-scheduler",
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
            },
        }
        meta = {
            "name": name,
            "namespace": "default",
            "labels": {"kai.scheduler/queue": queue},
            "annotations": _keys(notes),
        }
        spec = {"backoffLimit": 0, "template": template}
        self.store.create(kinds.JOB, {"metadata": meta, "spec": spec})

    def run(self, seconds: float) -> list[tuple[str, str]]:
        """(target, line) of what was told meanwhile."""
        self.told.clear()
        self.cluster.run_for(seconds)
        return [(target, line(message)) for target, message in self.told]


def _keys(notes: dict[str, str]) -> dict[str, str]:
    return {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in notes.items()}


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    with made.cluster:
        yield made


def test_a_job_is_told_of_from_start_to_end(office: Office) -> None:
    office.note("a", notify="ops")
    office.job("train", "a", 4, run="20m")
    assert office.run(60) == [("ops", "▶ Job default/train started: on n-0")]
    assert office.run(1800) == [
        ("ops", "✅ Job default/train has ended: Succeeded after running for 20 min")
    ]


def test_nobody_is_told_where_nobody_asked(office: Office) -> None:
    office.note("b", notify="ops")
    office.job("train", "a", 4, run="1m")
    assert office.run(600) == []


def test_a_failure_is_told_as_one_also_to_who_asked_for_ends(office: Office) -> None:
    office.note("a", notify="fails", notify_on="failed")
    office.note("dept", notify="ends", notify_on="ended")
    office.job("broken", "a", 1, run="1m", exits="1")
    office.job("fine", "b", 1, run="1m")
    told = office.run(600)
    assert [(who, text[0], text.split()[2]) for who, text in told if "broken" in text] == [
        ("fails", "❌", "default/broken")
    ]
    assert [(who, text[0]) for who, text in told if "fine" in text] == [("ends", "✅")]


def test_the_nearest_queue_that_says_so_counts_and_none_is_nobody(office: Office) -> None:
    office.note("dept", notify="dept-channel", notify_on="started")
    office.note("a", notify="none")
    office.job("one", "a", 1)
    office.job("two", "b", 1)
    assert [who for who, _ in office.run(60)] == ["dept-channel"]
    office.note("a", notify="a-channel")
    office.job("three", "a", 1)
    ((who, text),) = office.run(60)
    assert who == "a-channel" and "default/three started" in text


def test_a_jobs_own_annotation_is_told_besides_and_nobody_twice(office: Office) -> None:
    office.note("a", notify="ops,both", notify_on="started")
    office.job("train", "a", 1, run="1m", notify="https://hooks.example.com/x,both")
    told = office.run(600)
    assert sorted((who, text.split()[3].rstrip(":")) for who, text in told) == [
        ("both", "has"),
        ("both", "started"),
        ("https://hooks.example.com/x", "has"),
        ("https://hooks.example.com/x", "started"),
        ("ops", "started"),
    ]


def test_a_long_wait_is_told_once_with_its_reason(office: Office) -> None:
    office.note("dept", notify="ops", notify_on="waiting", notify_after="10m")
    office.job("first", "a", 8, run="2h")
    office.run(5)
    office.job("next", "a", 8, notify="mine", notify_on="waiting", notify_after="20m")
    assert office.run(590) == []
    ((who, text),) = office.run(60)
    assert who == "ops"
    assert text.startswith("⏳ Job default/next still waits: for 10 min: ")
    assert len(text) > 60  # and why
    assert [who for who, _ in office.run(600)] == ["mine"]
    assert office.run(3600) == []


def test_who_asks_while_it_waits_is_told_as_well(office: Office) -> None:
    office.job("first", "a", 8, run="2h")
    office.run(5)
    office.job("next", "a", 8)
    office.run(60)
    office.note("a", notify="ops", notify_on="waiting", notify_after="5m")
    assert [who for who, _ in office.run(300)] == ["ops"]


def test_a_victim_is_told_of_its_eviction_and_its_return(office: Office) -> None:
    office.note("a", notify="ops", notify_on="evicted,started")
    office.job("borrower", "a", 8, run="1h")
    office.run(60)
    office.job("owner", "b", 4, run="10m")
    told = office.run(1800)
    assert [text.split()[3:5] for _, text in told] == [["had", "to"], ["started:", "again"]]
    assert "default/owner" in told[0][1] or "queue b" in told[0][1]


def test_an_idle_warning_is_passed_on(office: Office) -> None:
    office.job("train", "a", 4, notify="mine", notify_on="idle")
    office.run(60)
    (group,) = office.store.list(kinds.POD_GROUP).items
    key = Key("default", group["metadata"]["name"])
    office.cluster.composition.sight.lives.warn(key, "Idle", "below 5 % for 30 minutes")
    ((who, message),) = office.told
    assert who == "mine"
    assert line(message).endswith("leaves its GPUs idle: below 5 % for 30 minutes")


def test_the_rule_for_idle_jobs_is_heard() -> None:
    office = Office(gpu_use=True)
    with office.cluster:
        rule = "below 5% for 10m, suspend after 10m, enforce"
        office.note("a", notify="ops", notify_on="idle", idle_jobs=rule)
        office.job("lazy", "a", 4, run="5h", sim_gpu_use="1%")
        (_, warned), (_, suspended) = office.run(3600)
    assert "leaves its GPUs idle: uses 1 % of its 4 GPUs" in warned
    assert "suspended" in suspended and "kai job resume" in suspended


def test_a_job_that_is_deleted_has_ended(office: Office) -> None:
    office.job("train", "a", 4, notify="mine", notify_on="ended")
    office.run(60)
    office.store.delete(kinds.JOB, "train", "default")
    assert office.run(120) == [
        ("mine", "✅ Job default/train has ended: Deleted after running for 60 s")
    ]


def test_a_start_of_the_process_says_nothing_again(tmp_path: Any) -> None:
    first = Office(tmp_path)
    with first.cluster:
        first.note("a", notify="ops", notify_after="10m")
        first.job("train", "a", 8, run="3h")
        first.run(5)
        first.job("next", "a", 8)
        assert len(first.run(1200)) == 1
        now = first.cluster.clock.now()
    again = Office(tmp_path, now)
    with again.cluster:
        assert again.run(1800) == []
        again.store.delete(kinds.JOB, "next", "default")
        assert [text.split()[2:5] for _, text in again.run(60)] == [
            ["default/next", "has", "ended:"]
        ]


def test_annotations_that_make_no_sense_silence_nobody_else(office: Office) -> None:
    office.note("dept", notify="ops", notify_on="started")
    office.job("train", "a", 1, notify="not a channel", notify_after="soon")
    assert [who for who, _ in office.run(60)] == ["ops"]


def test_from_an_annotation_to_a_webhook_in_real_time() -> None:
    with webhook() as hook:
        office = Office(clock=SystemClock(), notify=NotifyConfig(hosts=("localhost",)))
        with office.cluster:
            office.cluster.start()
            office.job("train", "a", 1, run="1s", notify=hook.url, notify_on="started,ended")
            until(lambda: len(hook.bodies) == 2, 20.0)
    assert ["started:" in hook.texts[0], "has ended: Succeeded" in hook.texts[1]] == [True, True]
    assert "_queue a · 1 GPU_" in hook.bodies[0]["blocks"][0]["text"]["text"]

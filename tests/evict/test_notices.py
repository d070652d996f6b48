"""Time to save one's work before an eviction: told, waited for, acknowledged, taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kai_ray.api import labels as L
from kai_ray.cli.root import root
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Object, Resource
from kai_ray.controllers.conditions import find
from kai_ray.controllers.explain import explain_workload
from tests.evict.world import EvictWorld

MINUTE = {L.EVICTION_GRACE: "1m"}


def borrowed(world: EvictWorld, **more: Any) -> None:
    """`low` runs on all GPUs of queue a, which owns none."""
    world.queues(a=8, b=0)
    world.torch("low", "b", 4, 2, annotations={**MINUTE, **more.pop("annotations", {})}, **more)
    assert world.until(lambda: len(world.running("low")) == 4, 60)


def claim(world: EvictWorld, **annotations: str) -> float:
    """`own` wants the room; when it was noticed."""
    world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "300s", **annotations})
    assert world.until(lambda: L.EVICTION_NOTICES in world.annotations("low"), 30)
    return world.cluster.clock.now()


def workload(world: EvictWorld, name: str = "low", kind: Resource = R.PYTORCH_JOB) -> Object:
    return world.store.get(kind, name, "default")


def told(obj: Object) -> dict[str, str]:
    text = (obj["metadata"].get("annotations") or {}).get(L.EVICTION_NOTICE)
    return json.loads(text) if text else {}


def annotate(world: EvictWorld, kind: Resource, name: str, **notes: str | None) -> None:
    world.store.patch(kind, name, {"metadata": {"annotations": notes}}, "default")


def save(world: EvictWorld, kind: Resource, name: str, ago_s: float = 0.0) -> None:
    """The job reports a checkpoint."""
    when = rfc3339(world.cluster.clock.now() - ago_s)
    world.store.patch(
        kind, name, {"metadata": {"annotations": {L.CHECKPOINT_TIME: when}}}, "default"
    )


def test_a_gang_is_told_and_keeps_running_until_its_deadline() -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        now = claim(world)
        world.run(2)
        for obj in (workload(world), *world.pods("low")):
            notice = told(obj)
            assert notice["reason"] == "Reclaimed"
            assert 59 <= epoch(notice["deadline"]) - now <= 62
            assert "below its share" in notice["message"]
        for pod in world.pods("low"):
            assert find(pod, "DisruptionTarget")["status"] == "True"
        said = find(world.group("low"), "EvictionNotice")
        assert (said["status"], said["reason"]) == ("True", "Reclaimed")
        assert any(reason == "EvictionNotice" for reason, _ in world.events("low"))
        world.run(45)
        assert len(world.running("low")) == 4
        assert world.group("low")["status"]["phase"] == "Running"
        assert world.store.get(R.QUEUE, "b")["status"]["allocated"]["nvidia.com/gpu"] == "8"
        assert not world.running("own")
        assert world.until(lambda: len(world.running("own")) == 4, 60), "the hold covered the grace"
        assert world.cluster.clock.now() - now >= 58
        assert [n for n, _, _ in world.evictions("PyTorchJob")] == ["low"]
        assert not told(workload(world))


@pytest.mark.parametrize("by", ["workload", "group", "every pod"])
def test_a_checkpoint_made_since_ends_the_wait(by: str) -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        now = claim(world)
        world.run(5)
        if by == "workload":
            save(world, R.PYTORCH_JOB, "low")
        elif by == "group":
            save(world, R.POD_GROUP, world.group("low")["metadata"]["name"])
        else:
            for pod in world.pods("low"):
                save(world, R.POD, pod["metadata"]["name"])
        assert world.until(lambda: len(world.running("own")) == 4, 30)
        assert world.cluster.clock.now() - now < 30
        saved = epoch(world.annotations("low")[L.CHECKPOINT_TIME])
        assert now <= saved <= now + 10, "what was saved is known when victims are compared"


def test_half_of_the_pods_do_not_speak_for_the_gang() -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        world.run(5)
        for pod in world.pods("low")[:2]:
            save(world, R.POD, pod["metadata"]["name"])
        world.run(40)
        assert len(world.running("low")) == 4


def test_an_older_checkpoint_is_no_answer() -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        save(world, R.PYTORCH_JOB, "low", ago_s=30)
        world.run(30)
        assert len(world.running("low")) == 4


@pytest.mark.parametrize("text", ["soon", "2199-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_is_no_answer(text: str) -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        patch = {"metadata": {"annotations": {L.CHECKPOINT_TIME: text}}}
        world.store.patch(R.PYTORCH_JOB, "low", patch, "default")
        world.run(30)
        assert len(world.running("low")) == 4


def test_it_is_taken_back_when_nobody_needs_the_room() -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        world.run(10)
        world.store.delete(R.PYTORCH_JOB, "own", "default")
        assert world.until(lambda: L.EVICTION_NOTICES not in world.annotations("low"), 30)
        world.run(120)
        assert len(world.running("low")) == 4
        assert not world.evictions("PyTorchJob")
        assert not told(workload(world))
        for pod in world.pods("low"):
            assert not told(pod)
            assert find(pod, "DisruptionTarget")["status"] == "False"
        assert not find(world.group("low"), "EvictionNotice")
        assert any(reason == "EvictionWithdrawn" for reason, _ in world.events("low"))


def test_it_is_taken_back_when_the_other_finds_room_elsewhere() -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        world.run(5)
        world.store.delete(R.PYTORCH_JOB, "own", "default")
        world.job("small", "b", 1, 1)
        world.run(10)
        assert L.EVICTION_NOTICES not in world.annotations("low")
        assert not world.running("small")


@pytest.mark.parametrize(
    ("stated", "limit", "seconds"),
    [(None, None, 0), ("20s", None, 20), ("1h", "30s", 30), ("0s", None, 0), ("bad", None, 40)],
)
def test_a_queue_says_how_long_and_bounds_what_a_workload_says(
    stated: str | None, limit: str | None, seconds: int
) -> None:
    """A child states its own, the parent's holds for all others."""
    with EvictWorld("1x8") as world:
        notes = {L.MAX_EVICTION_GRACE: limit} if limit else {}
        if stated == "bad":
            notes[L.EVICTION_GRACE] = "40s"
        world.queue("a", 8)
        world.queue("over", 0, annotations=notes)
        world.queue("b", 0, parent="over")
        own = {L.EVICTION_GRACE: stated} if stated else {}
        world.torch("low", "b", 4, 2, annotations=own)
        assert world.until(lambda: len(world.running("low")) == 4, 60)
        world.torch("own", "a", 4, 2)
        began = world.cluster.clock.now()
        assert world.until(lambda: len(world.running("own")) == 4, 120)
        assert seconds <= world.cluster.clock.now() - began <= seconds + 12


def test_a_signal_is_sent_to_who_asks_for_one() -> None:
    """Its pods are told to end at once, and have their time for it."""
    with EvictWorld("1x8") as world:
        borrowed(world, annotations={L.EVICTION_SIGNAL: "SIGTERM"})
        began = claim(world)
        world.run(1)
        for pod in world.pods("low"):
            assert 58 <= pod["metadata"]["deletionGracePeriodSeconds"] <= 61
        assert workload(world)["spec"]["runPolicy"]["suspend"] is True
        assert world.until(lambda: len(world.running("own")) == 4, 120)
        assert world.cluster.clock.now() - began < 70
        assert world.until(lambda: len(world.running("low")) == 4, 600), "it came back"


def test_surplus_pods_are_told_and_the_others_are_not() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=2, b=6)
        world.job("low", "b", 8, minimum=2, annotations=MINUTE)
        assert world.until(lambda: len(world.running("low")) == 8, 60)
        world.job("own", "a", 2)
        assert world.until(lambda: L.EVICTION_NOTICES in world.annotations("low"), 30)
        world.run(2)
        leaving = [p for p in world.pods("low") if told(p)]
        assert len(leaving) == 2
        assert len(world.running("low")) == 8
        save(world, R.POD, leaving[0]["metadata"]["name"])
        world.run(20)
        assert len(world.running("low")) == 8, "each pod speaks for itself"
        save(world, R.POD, leaving[1]["metadata"]["name"])
        assert world.until(lambda: len(world.running("own")) == 2, 30)
        gone = {p["metadata"]["uid"] for p in leaving}
        assert not gone & {p["metadata"]["uid"] for p in world.pods("low")}


def test_preemption_gives_time_as_well() -> None:
    with EvictWorld("1x8") as world:
        world.queue("a", 8)
        world.torch("low", "a", 4, 2, annotations=MINUTE)
        assert world.until(lambda: len(world.running("low")) == 4, 60)
        labels = {L.PRIORITY_CLASS: "build-preemptible"}
        world.torch("own", "a", 4, 2, labels=labels)
        assert world.until(lambda: L.EVICTION_NOTICES in world.annotations("low"), 30)
        world.run(2)
        assert told(workload(world))["reason"] == "Preempted"
        save(world, R.PYTORCH_JOB, "low")
        assert world.until(lambda: len(world.running("own")) == 4, 30)


def test_a_job_that_moves_is_told_and_finds_its_new_place() -> None:
    with EvictWorld("2x8") as world:
        world.queues(a=16)
        for name, gpus in (("one", 5), ("two", 5), ("three", 3)):
            world.job(name, "a", 1, gpus, annotations=MINUTE)
            world.run(5)
        world.store.delete(R.JOB, "one", "default")
        world.run(10)
        world.job("large", "a", 1, 8)
        assert world.until(lambda: any(map(told, world.pods())), 30)
        assert {told(p)["reason"] for p in world.pods() if told(p)} == {"Consolidated"}
        world.run(40)
        assert len(world.running()) == 2, "it runs on where it is"
        assert world.until(lambda: len(world.running("large")) == 1, 90)
        assert world.until(lambda: len(world.running()) == 3, 90), "who was moved runs again"
        assert len(world.evictions("Job")) == 1


def test_a_kind_without_a_switch_is_told_when_its_user_suspends_it() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8)
        world.deployment("web", "a", 2, annotations=MINUTE)
        assert world.until(lambda: len(world.running("web")) == 2, 60)
        annotate(world, R.DEPLOYMENT, "web", **{L.SUSPENDED: "true"})
        world.run(10)
        assert len(world.running("web")) == 2
        assert all(told(p)["reason"] == "Suspended" for p in world.pods("web"))
        annotate(world, R.DEPLOYMENT, "web", **{L.SUSPENDED: None})
        world.run(90)
        assert len(world.running("web")) == 2
        assert not any(told(p) for p in world.pods("web"))


def test_a_crash_at_any_write_goes_on_where_it_was(tmp_path: Path) -> None:
    for cut in range(1, 16):
        folder = tmp_path / str(cut)
        with EvictWorld("1x8", folder) as world:
            borrowed(world)
            since = _crash_at(world, cut)
            world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "300s"})
            crashed = False
            try:
                world.run(200)
            except _Crash:
                crashed = True
            now, began = world.cluster.clock.now(), since[0]
        if not crashed:
            assert cut > 8, "an eviction takes more writes than that"
            return
        with EvictWorld("1x8", folder, now) as world:
            assert world.until(lambda: len(world.running("own")) == 4, 200), cut
            ended = world.cluster.clock.now()
            assert ended - began < 90, (cut, "no new grace is given")
            assert world.until(lambda: len(world.running("low")) == 4, 600), cut
            assert not told(workload(world)), cut
            assert L.EVICTION_NOTICES not in world.annotations("low"), cut
            assert not any(told(p) for p in world.pods("low")), cut
            assert len(world.evictions("PyTorchJob")) <= 1, cut


def test_of_equals_who_was_told_and_saved_goes_next_time() -> None:
    """What a notice taught about saved work counts between equal victims."""
    with EvictWorld("2x8") as world:
        world.queues(a=16, b=0)
        for name in ("one", "two"):
            world.torch(name, "b", 4, 2, annotations=MINUTE)
        assert world.until(lambda: len(world.running()) == 8, 60)
        save(world, R.PYTORCH_JOB, "one")
        world.run(100)
        save(world, R.PYTORCH_JOB, "two", ago_s=10)
        world.run(5)
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: L.EVICTION_NOTICES in world.annotations("two"), 30)
        assert L.EVICTION_NOTICES not in world.annotations("one")


class _Crash(BaseException):
    """Not an Exception: nothing on the way catches it."""


def _crash_at(world: EvictWorld, write: int) -> list[float]:
    """The process ends at the nth write of an eviction; when the first of them was."""
    left, since = [write], [float("inf")]

    def patch(resource: Any, name: str, body: Any, *args: Any, **more: Any) -> Any:
        if "low" in name and _of_eviction(body):
            since[0] = min(since[0], world.cluster.clock.now())
            left[0] -= 1
            if left[0] == 0:
                raise _Crash
        return before(resource, name, body, *args, **more)

    before = world.store.patch
    world.store.patch = patch  # type: ignore[method-assign]
    return since


def _of_eviction(body: Any) -> bool:
    text = json.dumps(body)
    return any(word in text for word in ("eviction", "Evict", "DisruptionTarget", "suspend"))


def test_explain_and_describe_tell_of_a_notice(tmp_path: Path) -> None:
    with EvictWorld("1x8") as world:
        borrowed(world)
        claim(world)
        world.run(2)
        found = explain_workload(
            world.store, "PyTorchJob", "low", "default", clock=world.cluster.clock
        )
        assert "all of it goes at" in found.gangs[0].notice
        assert L.CHECKPOINT_TIME in found.sentence
        config = world.cluster.serve().write_kubeconfig(tmp_path / "config")
        env = {"KAI_KUBECONFIG": str(config), "NO_COLOR": "1"}
        told_by = CliRunner().invoke(root, ["describe", "job", "low"], env=env)
        assert "Has to leave:" in told_by.output, told_by.output


# ---- ends that are set


def test_the_end_of_a_run_time_is_told_as_long_before_as_the_gang_needs() -> None:
    """The limit holds all the same: time to save is no time to run longer."""
    with EvictWorld("1x8") as world:
        world.queue("a", 8, annotations={L.MAX_RUN_TIME: "10m"})
        world.torch("low", "a", 4, 2, annotations=MINUTE)
        assert world.until(lambda: len(world.running("low")) == 4, 60)
        began = world.cluster.clock.now()
        world.run(500)
        assert not told(workload(world))
        world.run(60)
        notice = told(workload(world))
        assert notice["reason"] == "MaxRunTimeReached"
        assert abs(epoch(notice["deadline"]) - began - 600) < 5
        assert len(world.running("low")) == 4
        assert world.until(lambda: not world.running("low"), 120)
        assert world.cluster.clock.now() - began < 610
        assert not told(workload(world))


def test_a_longer_run_time_takes_the_notice_back() -> None:
    with EvictWorld("1x8") as world:
        world.queue("a", 8, annotations={L.MAX_RUN_TIME: "2m"})
        world.torch("low", "a", 4, 2, annotations=MINUTE)
        assert world.until(lambda: bool(told(workload(world))), 120)
        patch = {"metadata": {"annotations": {L.MAX_RUN_TIME: "1h"}}}
        world.store.patch(R.QUEUE, "a", patch)
        assert world.until(lambda: not told(workload(world)), 30)
        world.run(200)
        assert len(world.running("low")) == 4


def test_a_drain_of_the_queue_is_told_before_its_deadline() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8)
        world.torch("low", "a", 4, 2, annotations=MINUTE)
        assert world.until(lambda: len(world.running("low")) == 4, 60)
        due = world.cluster.clock.now() + 100
        patch = {"metadata": {"annotations": {L.DRAIN_DEADLINE: rfc3339(due)}}}
        world.store.patch(R.QUEUE, "a", patch)
        world.run(30)
        assert not told(workload(world))
        world.run(20)
        assert told(workload(world))["reason"] == "QueueDrained"
        assert len(world.running("low")) == 4
        assert world.until(lambda: not world.running("low"), 80)

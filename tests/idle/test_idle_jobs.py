"""A job that holds GPUs and does not use them is warned, and then its queue's rule follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock, rfc3339
from kai_ray.sdk.explaining import Explanation, explain
from kai_ray.sdk.finding import find
from kai_ray.sdk.switching import switch
from kai_ray.sim.gpu_model import GpuModel
from tests.idle.worlds import World, world

EXAMPLE = Path(__file__).parents[2] / "examples" / "idle"
RULE = "below 5% for 30m, suspend after 10m, enforce"


def test_an_idle_job_is_warned_then_suspended_and_starts_again_when_resumed() -> None:
    with world() as w:
        w.queue("team", RULE)
        w.job("busy", "80%")
        w.job("lazy", "90% for 20m, 1%")
        w.run(45)
        assert w.running("lazy") == 2 and w.idle("lazy") == ""
        w.run(10)  # idle for 30 minutes and more
        assert "suspended at" in str(_explained(w, "lazy"))
        assert w.idle("lazy") == "IdleWarning" and w.running("lazy") == 2
        assert "IdleWarning" in w.events("lazy")
        reason, text = w.told[0]
        assert reason == "IdleWarning" and "uses 1 % of its 8 GPUs" in text
        assert "suspended at" in text
        w.run(10)
        assert w.running("lazy") == 0 and w.idle("lazy") == "IdleSuspended"
        job = w.port.get(kinds.JOB, "lazy", "default")
        assert job["spec"]["suspend"] is True
        assert "below 5 % for 30 minutes" in job["metadata"]["annotations"][L.SUSPENDED_BY]
        why = str(_explained(w, "lazy"))
        assert "kai job resume lazy" in why and "below 5 % for 30 minutes" in why
        assert [reason for reason, _ in w.told] == ["IdleWarning", "IdleSuspended"]
        assert w.running("busy") == 2 and w.idle("busy") == ""
        w.run(30)
        assert w.running("lazy") == 0, "it stays suspended until somebody resumes it"
        assert switch(w.port, find(w.port, "default", "lazy"), False)
        job = w.port.get(kinds.JOB, "lazy", "default")
        assert L.SUSPENDED_BY not in job["metadata"]["annotations"]
        w.run(5)
        assert w.running("lazy") == 2
        assert L.IDLE not in w.group("lazy")["metadata"]["annotations"]


def _explained(w: World, job: str) -> Explanation:
    return explain(w.port, find(w.port, "default", job))


def test_the_default_is_to_do_nothing_and_a_rule_alone_only_tells() -> None:
    with world() as w:
        w.queue("team")
        w.job("lazy", "0%", pods=1)
        w.run(120)
        assert w.told == []
        w.rule("team", "below 5% for 30m, suspend after 10m")
        w.run(60)
        assert [reason for reason, _ in w.told] == ["IdleWarning", "IdleDryRun"]
        assert "dry run: it would be suspended" in w.told[1][1]
        w.run(120)
        assert w.running("lazy") == 1 and len(w.told) == 2, "said once"
        assert w.events("lazy").count("IdleSuspended") == 0
        w.rule("team", "below 5% for 30m, suspend after 10m, enforce")
        w.run(5)
        assert w.told[2][0] == "IdleWarning", "another rule, another warning and time of grace"
        w.run(15)
        assert w.running("lazy") == 0


def test_evict_gives_its_room_to_others_and_puts_it_back_into_the_queue() -> None:
    with world(nodes=1) as w:
        w.queue("team", "below 5% for 30m, evict after 10m, enforce")
        w.job("lazy", "0%", pods=1, gpus=8)
        w.run(5)
        w.job("next", "90%", pods=1, gpus=8)
        w.run(42)
        assert w.running("next") == 1 and w.running("lazy") == 0
        assert w.told[-1][0] == "IdleEvicted"
        evicted = w.cluster.composition.sight.totals.evicted
        assert evicted["GpusIdle"] == 1
        w.run(5)
        assert L.IDLE_EVICTED not in w.group("lazy")["metadata"]["annotations"]
        w.port.delete(kinds.JOB, "next", "default")
        w.run(2)
        assert w.running("lazy") == 1, "it waited in the queue"


def test_use_in_the_time_of_grace_takes_the_warning_back() -> None:
    with world() as w:
        w.queue("team", RULE)
        w.job("lazy", "0% for 35m, 90%")
        w.run(33)
        assert w.idle("lazy") == "IdleWarning"
        w.run(20)
        assert w.idle("lazy") == "" and w.running("lazy") == 2
        assert "IdleEnded" in w.events("lazy")


def test_pods_with_an_eviction_grace_are_told_beforehand_and_again_when_it_is_over() -> None:
    with world() as w:
        w.queue("team", RULE)
        w.job("lazy", "0% for 38m, 90%", pods=1, notes={L.EVICTION_GRACE: "5m"})
        w.run(33)
        (pod,) = w.port.list(kinds.POD, "default").items
        assert L.EVICTION_NOTICE not in pod["metadata"]["annotations"]
        w.run(4)  # five minutes before the end
        (pod,) = w.port.list(kinds.POD, "default").items
        notice = json.loads(pod["metadata"]["annotations"][L.EVICTION_NOTICE])
        assert notice["reason"] == "GpusIdle" and "does not use its GPUs" in notice["message"]
        w.run(10)
        (pod,) = w.port.list(kinds.POD, "default").items
        assert L.EVICTION_NOTICE not in pod["metadata"]["annotations"]
        assert w.running("lazy") == 1


def test_only_the_workload_types_that_a_rule_names_and_the_child_queue_that_has_it() -> None:
    with world(nodes=4) as w:
        w.queue("root", "build: below 5% for 30m, suspend after 1m, enforce")
        w.queue("team", parent="root")
        w.queue("free", "off", parent="root")
        w.job("note", "0%", gpus=1, kind="build")
        w.job("train", "0%", gpus=1)
        w.job("other", "0%", queue="free", gpus=1, kind="build")
        w.run(40)
        assert (w.running("note"), w.running("train"), w.running("other")) == (0, 2, 2)


def test_a_build_job_is_let_alone_in_its_protected_hours() -> None:
    with world() as w:  # the clock starts at midnight, 2026-01-01, a Thursday
        w.queue("team", RULE, hours="Mon-Fri 00:20-03:00")
        w.job("note", "0%", gpus=1, kind="build")
        w.job("train", "0%", gpus=1)
        w.run(60)
        assert w.running("train") == 0 and w.running("note") == 2
        assert [t for r, t in w.told if "note" in t] == []
        w.run(119)
        assert w.running("note") == 2
        w.run(15)
        assert w.running("note") == 0, "warned at three, suspended ten minutes later"


def test_a_warning_just_before_the_protected_hours_waits_for_their_end() -> None:
    with world() as w:
        w.queue("team", RULE, hours="Mon-Fri 00:35-03:00")
        w.job("note", "0%", gpus=1, kind="build")
        w.run(34)
        assert w.told[0][0] == "IdleWarning" and "suspended at 2026-01-01T03:00:00Z" in w.told[0][1]
        w.run(140)
        assert w.running("note") == 2
        w.run(10)
        assert w.running("note") == 0


@pytest.mark.parametrize("where", ["job", "pod"])
def test_nothing_happens_while_a_checkpoint_is_being_written(where: str) -> None:
    with world() as w:
        w.queue("team", RULE)
        w.job("lazy", "0%", pods=1)
        w.run(35)
        now = rfc3339(w.cluster.clock.now())
        resource, name = kinds.JOB, "lazy"
        if where == "pod":
            pod = w.port.list(kinds.POD, "default").items[0]
            resource, name = kinds.POD, pod["metadata"]["name"]
        w.annotate(resource, name, {L.CHECKPOINTING: now})
        w.run(15)
        assert w.running("lazy") == 1 and w.idle("lazy") == "IdlePostponed"
        w.annotate(resource, name, {L.CHECKPOINTING: None})
        w.run(2)
        assert w.running("lazy") == 0 and w.told[-1][0] == "IdleSuspended"


def test_a_checkpoint_that_somebody_forgot_to_end_protects_for_an_hour() -> None:
    with world() as w:
        w.queue("team", RULE)
        w.job("lazy", "0%", pods=1)
        w.run(35)
        w.annotate(kinds.JOB, "lazy", {L.CHECKPOINTING: rfc3339(w.cluster.clock.now())})
        w.run(55)
        assert w.running("lazy") == 1
        w.run(10)
        assert w.running("lazy") == 0


def test_a_job_of_which_nobody_knows_is_not_idle() -> None:
    with world(nodes=1, period=0) as w:  # nodes that say nothing
        w.queue("team", RULE)
        w.job("lazy", "0%", pods=1)
        w.run(90)
        assert w.running("lazy") == 1 and w.told == []


def test_a_warning_is_taken_back_when_the_agent_falls_silent() -> None:
    with world(nodes=1) as w:
        w.queue("team", RULE)
        w.job("lazy", "0%", pods=1)
        w.run(33)
        assert w.idle("lazy") == "IdleWarning"
        old = {"status": {"observedAt": "2020-01-01T00:00:00Z", "problem": "the driver is gone",
                          "devices": []}}  # fmt: skip
        model = next(c for c in w.cluster.controllers if isinstance(c, GpuModel))
        model._period_s = 100_000.0  # it says nothing more
        w.run(1)
        w.port.patch(kinds.GPU_NODE_STATE, "n-0", old, subresource="status")
        w.run(12)
        assert w.idle("lazy") == "" and w.running("lazy") == 1
        said = [e for e in w.port.list(kinds.EVENT, "default").items if e["reason"] == "IdleEnded"]
        assert "the driver is gone" in said[0]["message"]


def test_a_restart_goes_on_from_the_warning(tmp_path) -> None:
    with world(state_dir=tmp_path) as w:
        w.queue("team", RULE)
        w.job("lazy", "0%")
        w.run(33)
        assert w.idle("lazy") == "IdleWarning"
        at = w.cluster.clock.now()
    with world(state_dir=tmp_path) as w:
        assert isinstance(w.cluster.clock, VirtualClock)
        w.cluster.clock.advance_to(at)
        w.run(11)
        assert w.running("lazy") == 0
        assert [reason for reason, _ in w.told] == ["IdleSuspended"], "no second warning"


def test_a_bare_pod_is_warned_and_stays() -> None:
    with world() as w:
        w.queue("team", RULE)
        notes = {L.SIM_GPU_USE: "0%"}
        container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        meta = {"name": "bare", "labels": {L.QUEUE: "team"}, "annotations": notes}
        w.create(kinds.POD, {"metadata": meta, "spec": {"containers": [container]}})
        w.run(60)
        assert w.running("bare") == 1
        assert [reason for reason, _ in w.told] == ["IdleWarning", "IdleNotSuspended"]
        assert "bare pod" in w.told[1][1]


def test_a_kind_without_a_switch_waits_until_it_is_resumed() -> None:
    with world() as w:
        w.queue("team", RULE)
        labels = {L.QUEUE: "team", "app": "d"}
        container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        pod = {"metadata": {"labels": labels, "annotations": {L.SIM_GPU_USE: "0%"}},
               "spec": {"containers": [container]}}  # fmt: skip
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}, "template": pod}
        w.create(kinds.DEPLOYMENT, {"metadata": {"name": "d", "labels": labels}, "spec": spec})
        w.run(33)
        assert w.running("d") == 1 and w.told[0][0] == "IdleWarning"
        w.run(15)
        assert w.running("d") == 0
        found = w.port.get(kinds.DEPLOYMENT, "d", "default")["metadata"]["annotations"]
        assert found[L.SUSPENDED] == "true"
        w.annotate(kinds.DEPLOYMENT, "d", {L.SUSPENDED: None})
        w.run(5)
        assert w.running("d") == 1


def test_jobs_that_share_a_card_are_judged_by_their_own_processes() -> None:
    with world(nodes=1) as w:
        w.queue("team", RULE)
        for name, busy in (("lazy", "0%"), ("busy", "80%")):
            self_made = {
                "metadata": {
                    "name": name,
                    "labels": {L.QUEUE: "team"},
                    "annotations": {L.SIM_GPU_USE: busy, L.RUN_TIME: "100h"},
                },
                "spec": {
                    "template": {
                        "metadata": {"annotations": {"gpu-fraction": "0.5"}},
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "x"}],
                        },
                    }
                },
            }
            w.create(kinds.JOB, self_made)
        w.run(60)
        assert w.running("busy") == 1 and w.running("lazy") == 0


def test_the_life_of_the_job_tells_of_it() -> None:
    with world() as w:
        seen: list[tuple[str, str, str]] = []
        w.cluster.composition.sight.subscribe(lambda e: seen.append((e.what, e.reason, e.name)))
        w.queue("team", RULE)
        w.job("lazy", "0%")
        w.run(50)
        assert ("warned", "IdleWarning", "lazy") in seen
        assert ("warned", "IdleSuspended", "lazy") in seen


def test_the_example_of_the_documents() -> None:
    with world() as w:
        for file in sorted(EXAMPLE.glob("*.yaml")):
            for manifest in yaml.safe_load_all(file.read_text()):
                kind = kinds.BY_KIND[manifest["apiVersion"], manifest["kind"]]
                if kind.namespaced:
                    manifest["metadata"]["namespace"] = "default"
                w.port.create(kind, manifest)
        w.run(2)
        assert w.idle("forgotten") == "IdleWarning"
        w.run(2)
        assert w.idle("forgotten") == "IdleSuspended"
        assert w.running("forgotten") == 0 and w.running("busy") == 1

"""Node pools side by side: each has its own nodes, queues, gangs and settings."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock, epoch
from kai_ray.cluster.port import Invalid
from kai_ray.controllers.explain import explain_workload
from kai_ray.encode.shard_spec import ShardSettings, read
from kai_ray.encode.zone_rows import ZoneRules
from kai_ray.scheduler import DEFAULT, Policy
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.actions.preempt import preempt
from kai_ray.scheduler.actions.reclaim import reclaim
from kai_ray.scheduler.gpu.order import as_they_come
from kai_ray.scheduler.victims.knobs import Evicting
from kai_ray.scheduler.victims.min_runtime import Resolution
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.control import objects

CLUSTER = {
    "nodePools": [
        {"name": "plain", "count": 2, "gpus": 8},
        {"name": "gold", "count": 2, "gpus": 8, "labels": {L.NODE_POOL: "gold"}},
        {"name": "iron", "count": 2, "gpus": 8, "labels": {L.NODE_POOL: "iron"}},
    ],
    "shards": [
        {"name": "gold", "spec": {"partitionLabelValue": "gold"}},
        {
            "name": "iron",
            "spec": {
                "partitionLabelValue": "iron",
                "placementStrategy": {"gpu": "spread", "cpu": "spread"},
            },
        },
    ],
}


def cluster(**more: Any) -> EmbeddedCluster:
    return EmbeddedCluster(ClusterConfig.of({**CLUSTER, **more}), VirtualClock())


def labelled(obj: dict[str, Any], pool: str) -> dict[str, Any]:
    if pool:
        obj["metadata"].setdefault("labels", {})[L.NODE_POOL] = pool
    return obj


def gang(c: EmbeddedCluster, name: str, pods: int, pool: str, gpus: int = 1) -> None:
    queue = f"team-{pool or 'plain'}"
    if not any(q["metadata"]["name"] == queue for q in c.store.list(kinds.QUEUE).items):
        c.store.create(kinds.QUEUE, labelled(objects.queue(queue), pool))
    c.store.create(kinds.POD_GROUP, labelled(objects.podgroup(name, queue, pods), pool))
    for i in range(pods):
        c.store.create(kinds.POD, objects.pod(f"{name}-{i}", name, gpus=gpus))


def nodes_of(c: EmbeddedCluster, name: str) -> list[str]:
    pods = c.store.list(kinds.POD, "default").items
    return sorted(
        p["spec"].get("nodeName") or ""
        for p in pods
        if p["metadata"]["annotations"].get(L.POD_GROUP) == name
    )


def pods(c: EmbeddedCluster, name: str) -> list[dict[str, Any]]:
    return [p for p in c.store.list(kinds.POD, "default").items if p["metadata"]["name"] == name]


def test_no_shard_touches_the_nodes_of_another() -> None:
    with cluster() as c:
        for pool in ("", "gold", "iron"):
            # Twice what the pool can take: what does not fit must not go elsewhere.
            for i in range(4):
                gang(c, f"{pool or 'plain'}-{i}", 8, pool)
        c.run_for(10)
        for pool in ("plain", "gold", "iron"):
            used = [n for i in range(4) for n in nodes_of(c, f"{pool}-{i}")]
            assert sum(bool(n) for n in used) == 16
            assert {n.rsplit("-", 1)[0] for n in used if n} == {pool}


def test_pods_of_a_shard_carry_its_label() -> None:
    with cluster() as c:
        gang(c, "a", 1, "gold")
        gang(c, "b", 1, "")
        c.run_for(5)
        assert pods(c, "a-0")[0]["metadata"]["labels"][L.NODE_POOL] == "gold"
        assert L.NODE_POOL not in pods(c, "b-0")[0]["metadata"].get("labels", {})


def test_each_shard_places_by_its_own_strategy() -> None:
    with cluster() as c:
        for pool in ("gold", "iron"):
            for i in range(2):
                gang(c, f"{pool}-{i}", 1, pool)
        c.run_for(5)
        assert len({*nodes_of(c, "gold-0"), *nodes_of(c, "gold-1")}) == 1
        assert len({*nodes_of(c, "iron-0"), *nodes_of(c, "iron-1")}) == 2


def test_a_node_is_set_aside_by_the_shard_that_it_belongs_to_and_by_no_other() -> None:
    with cluster() as c:
        c.run_for(1)
        written: list[str] = []

        def note(old: Any, new: Any) -> None:
            if old is None or new is None:
                return
            before, after = (o["metadata"].get("annotations") or {} for o in (old, new))
            moved = (
                k for k in (L.QUARANTINED_UNTIL, L.BAD_DEVICES) if before.get(k) != after.get(k)
            )
            written.extend(f"{key} {new['metadata']['name']}" for key in moved)

        c.runtime.informer(kinds.NODE).on_change(note)
        group = {L.GPU_GROUP: "card"}
        for i in range(6):
            labels = group if i < 3 else {}
            pod = objects.pod(f"p-{i}", "none", gpus=0, node="gold-0", labels=labels)
            c.store.create(kinds.POD, labelled(pod, "gold"))
        c.run_for(2)
        said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"}
        for i in range(6):
            c.store.patch(kinds.POD, f"p-{i}", {"status": said}, "default", subresource="status")
        c.run_for(2)
        assert sorted(written) == [f"{L.BAD_DEVICES} gold-0", f"{L.QUARANTINED_UNTIL} gold-0"]
        events = [e["reason"] for e in c.store.list(kinds.EVENT).items]
        assert (events.count("Quarantined"), events.count("DeviceQuarantined")) == (1, 1)


def test_what_one_shard_has_sent_away_is_resumed_by_it_and_by_no_other() -> None:
    with cluster() as c:
        for name, quota in (("lender", 16), ("borrower", 0)):
            gpu = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
            c.store.create(kinds.QUEUE, labelled(objects.queue(name, gpu=gpu), "gold"))
        resumed: list[str] = []

        def note(old: Any, new: Any) -> None:
            was, now = ((obj or {}).get("spec", {}).get("suspend") for obj in (old, new))
            if was and not now and new is not None:
                resumed.append(new["metadata"]["name"])

        c.runtime.informer(kinds.JOB).on_change(note)
        c.store.create(kinds.JOB, job("lent", "borrower", 16))
        assert c.run_until(lambda: running(c, "lent") == 16, 60)
        c.store.create(kinds.JOB, job("own", "lender", 16))
        assert c.run_until(lambda: running(c, "own") == 16, 120)
        c.run_for(60)
        assert resumed == ["lent"]


def running(c: EmbeddedCluster, name: str) -> int:
    found = c.store.list(kinds.POD, "default").items
    return sum(
        p["metadata"]["name"].startswith(name) and (p.get("status") or {}).get("phase") == "Running"
        for p in found
    )


def job(name: str, queue: str, pods: int) -> dict[str, Any]:
    """A Job of the gold pool whose pods start together and run for an hour."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    container = {"name": "main", "image": "app", "resources": resources}
    labels = {L.QUEUE: queue, L.NODE_POOL: "gold"}
    spec = {"containers": [container], "restartPolicy": "Never", "schedulerName": "kai-scheduler"}
    notes = {L.BATCH_MIN_MEMBER: str(pods), L.RUN_TIME: "3600s"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {**labels, L.PRIORITY_CLASS: "train"},
            "annotations": notes,
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": spec},
        },
    }


def test_a_gang_of_another_shard_is_not_called_lost() -> None:
    with cluster() as c:
        gang(c, "big", 1, "gold", gpus=9)
        c.run_for(20)
        said = {x["type"]: x for x in pods(c, "big-0")[0]["status"].get("conditions", [])}
        assert "does not exist" not in said["PodScheduled"]["message"]


def test_explain_decides_as_the_shard_of_the_gang_does() -> None:
    with cluster() as c:
        gang(c, "big", 1, "gold", gpus=9)
        gang(c, "small", 1, "gold")
        c.run_for(5)
        said = explain_workload(c.store, "PodGroup", "big", clock=c.clock)
        assert said.gangs[0].reason == "LargerThanAnyNode"
        assert said.gangs[0].nearest is not None
        assert said.gangs[0].nearest.node.startswith("gold-")
        assert (
            explain_workload(c.store, "Pod", "small-0", clock=c.clock).gangs[0].state == "Running"
        )


def test_a_shard_may_come_change_and_go() -> None:
    with cluster(shards=[]) as c:
        gang(c, "a", 1, "gold")
        c.run_for(5)
        assert nodes_of(c, "a") == [""]
        spec: dict[str, Any] = {"partitionLabelValue": "gold"}
        c.store.create(kinds.SCHEDULING_SHARD, {"metadata": {"name": "gold"}, "spec": spec})
        c.run_for(5)
        assert nodes_of(c, "a") != [""]
        patch = {"spec": {"placementStrategy": {"gpu": "spread"}}}
        c.store.patch(kinds.SCHEDULING_SHARD, "gold", patch)
        c.run_for(1)
        gang(c, "b", 1, "gold")
        c.run_for(5)
        assert nodes_of(c, "b") not in ([""], nodes_of(c, "a"))
        c.store.delete(kinds.SCHEDULING_SHARD, "gold")
        c.run_for(5)
        gang(c, "c", 1, "gold")
        c.run_for(5)
        assert nodes_of(c, "c") == [""]


def test_the_object_without_a_value_changes_the_shard_that_is_there_anyway() -> None:
    with cluster() as c:
        spec = {"placementStrategy": {"gpu": "spread"}}
        c.store.create(kinds.SCHEDULING_SHARD, {"metadata": {"name": "default"}, "spec": spec})
        c.run_for(2)
        gang(c, "a", 1, "")
        gang(c, "b", 1, "")
        c.run_for(5)
        assert len({*nodes_of(c, "a"), *nodes_of(c, "b")}) == 2


def test_actions_can_be_switched_off() -> None:
    with cluster() as c:
        off = {"allocate": {"enabled": False}}
        c.store.create(
            kinds.SCHEDULING_SHARD, {"metadata": {"name": "default"}, "spec": {"actions": off}}
        )
        c.run_for(2)
        gang(c, "a", 1, "")
        gang(c, "b", 1, "gold")
        c.run_for(5)
        assert nodes_of(c, "a") == [""]
        assert nodes_of(c, "b") != [""]


def test_plugins_can_be_switched_off() -> None:
    def shard(**plugins: Any) -> Policy:
        off = {name: {"enabled": on} for name, on in plugins.items()}
        return read({"metadata": {"name": "x"}, "spec": {"plugins": off}}).policy

    every = shard(podaffinity=True, snapshot=False)
    assert len(every.scores) == len(DEFAULT.scores)
    assert len(shard(podaffinity=False).scores) == len(DEFAULT.scores) - 1
    assert shard(nominatednode=False).nominated_weight == 0
    assert shard(gpupack=False).device_order is as_they_come
    with cluster() as c:
        spec = {"plugins": {"nodeplacement": {"enabled": False}}}
        c.store.create(kinds.SCHEDULING_SHARD, {"metadata": {"name": "default"}, "spec": spec})
        c.run_for(2)
        gang(c, "a", 1, "")
        c.run_for(5)
        assert nodes_of(c, "a") != [""]


USAGE = "spec.usageDBConfig"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"partitionLabelValue": "-no-"}, "spec.partitionLabelValue", "label value"),
        ({"partitionLabelValue": "gold"}, "spec.partitionLabelValue", "is served by gold"),
        ({"actions": {"fly": {}}}, "spec.actions[fly]", "there are allocate"),
        ({"minRuntime": {"preemptMinRuntime": "-1s"}}, "spec.minRuntime.preemptMinRuntime", ""),
        ({"usageDBConfig": {"clientType": "oracle"}}, f"{USAGE}.clientType", "history"),
        (
            {"usageDBConfig": {"clientType": "prometheus", "connectionString": "db"}},
            f"{USAGE}.connectionString",
            "http",
        ),
        (
            {"usageDBConfig": {"usageParams": {"windowType": "yearly"}}},
            f"{USAGE}.usageParams.windowType",
            "tumbling",
        ),
        (
            {"usageDBConfig": {"usageParams": {"windowType": "cron"}}},
            f"{USAGE}.usageParams.tumblingWindowCronString",
            "five fields",
        ),
        (
            {
                "usageDBConfig": {
                    "usageParams": {"windowType": "cron", "tumblingWindowCronString": "0 0 31 2 *"}
                }
            },
            f"{USAGE}.usageParams.tumblingWindowCronString",
            "never comes",
        ),
        ({"queueDepthPerAction": {"fly": 1}}, "spec.queueDepthPerAction[fly]", "allocate"),
        (
            {"queueDepthPerAction": {"reclaim": 5}, "actions": {"reclaim": {"enabled": False}}},
            "spec.queueDepthPerAction[reclaim]",
            "enabled",
        ),
        ({"queueDepthPerAction": {"allocate": 0}}, "spec.queueDepthPerAction[allocate]", ""),
        (
            {"args": {"max-consolidation-preemptees": "some"}},
            "spec.args[max-consolidation-preemptees]",
            "whole number",
        ),
        (
            {"plugins": {"numa": {"arguments": {"reconstructAvailable": "perhaps"}}}},
            "spec.plugins[numa].arguments[reconstructAvailable]",
            "true nor false",
        ),
        (
            {"plugins": {"minruntime": {"arguments": {"reclaimResolveMethod": "root"}}}},
            "spec.plugins[minruntime].arguments[reclaimResolveMethod]",
            "lca",
        ),
        (
            {"usageDBConfig": {"usageParams": {"windowSize": "a week"}}},
            f"{USAGE}.usageParams.windowSize",
            "1w",
        ),
        (
            {"usageDBConfig": {"usageParams": {"windowSize": "5s"}}},
            f"{USAGE}.usageParams.windowSize",
            "least",
        ),
        ({"plugins": {"podaffinity": {"enabled": "no"}}}, "spec.plugins[podaffinity].enabled", ""),
        (
            {"plugins": {"proportion": {"arguments": {"kValue": "much"}}}},
            "spec.plugins[proportion].arguments[kValue]",
            "number",
        ),
    ],
)
def test_a_shard_that_cannot_be_used_is_refused(
    spec: dict[str, Any], field: str, words: str
) -> None:
    with cluster() as c:
        with pytest.raises(Invalid) as error:
            c.store.create(kinds.SCHEDULING_SHARD, {"metadata": {"name": "x"}, "spec": spec})
        assert field in str(error.value)
        assert words in str(error.value)


def test_a_shard_that_got_past_admission_is_named_and_changes_nothing() -> None:
    with cluster() as c:
        c.run_for(1)
        bad = {"usageDBConfig": {"clientType": "oracle"}, "placementStrategy": {"gpu": "spread"}}
        c.store.admission.clear()  # as if it had been written while admission was away
        c.store.patch(kinds.SCHEDULING_SHARD, "gold", {"spec": bad})
        gang(c, "a", 1, "gold")
        gang(c, "b", 1, "gold")
        c.run_for(5)
        said = c.store.get(kinds.SCHEDULING_SHARD, "gold")["status"]["conditions"][0]
        assert (said["status"], said["reason"]) == ("False", "Misconfigured")
        assert "clientType" in said["message"]
        assert len({*nodes_of(c, "a"), *nodes_of(c, "b")}) == 1


# ---------------------------------------------------------------------- what a spec says


def settings(**spec: Any) -> ShardSettings:
    return read({"metadata": {"name": "x"}, "spec": spec})


def test_a_depth_is_one_of_an_action() -> None:
    policy = settings(queueDepthPerAction={"reclaim": 5, "allocate": 100}).policy
    assert policy.depth_of(reclaim) == 5
    assert policy.depth_of(allocate) == 100
    assert policy.depth_of(preempt) is None


def test_flags_that_say_what_to_decide_are_honoured_and_others_passed_over() -> None:
    args = {
        "default-staleness-grace-period": "-1s",
        "max-consolidation-preemptees": "3",
        "allow-consolidating-reclaim": "false",
        "qps": "50",
    }
    knobs = settings(args=args).policy.evicting
    assert (knobs.staleness_grace_s, knobs.max_moved_gangs) == (-1.0, 3)
    assert knobs.moving_is_taking
    assert settings().policy.evicting == Evicting()


def test_arguments_of_plugins_are_settings() -> None:
    arguments = {"defaultReclaimMinRuntime": "10m", "reclaimResolveMethod": "queue"}
    plugins = {
        "minruntime": {"arguments": arguments},
        "proportion": {"arguments": {"relcaimerSaturationMultiplier": "1.5", "migByShare": "true"}},
    }
    policy = settings(plugins=plugins).policy
    assert policy.evicting.reclaim_min_runtime_s == 600
    assert policy.evicting.resolution is Resolution.QUEUE
    assert policy.evicting.saturation_multiplier == 1.5
    assert policy.mig_by_share
    stated = settings(plugins=plugins, minRuntime={"reclaimMinRuntime": "1m"}).policy
    assert stated.evicting.reclaim_min_runtime_s == 60  # the shard's own field goes first


def test_the_plugin_numa_has_settings() -> None:
    assert settings().zones == ZoneRules()
    arguments = {"ignoreList": "memory, hugepages-1Gi", "reconstructAvailable": "false"}
    found = settings(plugins={"numa": {"arguments": arguments}}).zones
    assert found == ZoneRules(True, frozenset({"memory", "hugepages-1Gi"}), False)
    assert not settings(plugins={"numa": {"enabled": False}}).zones.known


@pytest.mark.parametrize(
    ("words", "begins"),
    [("0 0 * * 1", "2026-01-26"), ("@monthly", "2026-01-01"), ("0 0 29 2 *", "2024-02-29")],
)
def test_a_cron_window_begins_when_its_schedule_came_last(words: str, begins: str) -> None:
    params = {"windowType": "cron", "tumblingWindowCronString": words}
    usage = settings(usageDBConfig={"usageParams": params}).usage
    assert usage is not None
    now = epoch("2026-01-31T12:00:00Z")
    assert usage.settings.begin_s(now) == epoch(f"{begins}T00:00:00Z")

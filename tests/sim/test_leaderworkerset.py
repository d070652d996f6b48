"""The stand-in for LeaderWorkerSet: what its groups do in their lives."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import bare_cluster, get, status_condition

INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def make(c: EmbeddedCluster, replicas: int = 2, size: int = 3, **spec: Any) -> None:
    notes = spec.pop("annotations", {})
    template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    parts = {"size": size, "workerTemplate": template, **spec.pop("parts", {})}
    meta = {"name": "lws", "namespace": "default", "annotations": notes}
    body = {"replicas": replicas, "leaderWorkerTemplate": parts, **spec}
    c.client.create(R.LEADER_WORKER_SET, {"metadata": meta, "spec": body})


def pods(c: EmbeddedCluster) -> dict[str, Object]:
    return {p["metadata"]["name"]: p for p in c.client.list(R.POD, "default").items}


def names(c: EmbeddedCluster) -> list[str]:
    return sorted(pods(c))


def available(c: EmbeddedCluster) -> bool:
    return status_condition(get(c, R.LEADER_WORKER_SET, "lws"), "Available") == "True"


def test_groups_come_whole_and_become_available() -> None:
    with bare_cluster() as c:
        make(c)
        assert c.run_until(lambda: available(c), 30)
        assert names(c) == ["lws-0", "lws-0-1", "lws-0-2", "lws-1", "lws-1-1", "lws-1-2"]
        status = get(c, R.LEADER_WORKER_SET, "lws")["status"]
        assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 2, 2)
        env = {e["name"]: e["value"] for e in pods(c)["lws-1-2"]["spec"]["containers"][0]["env"]}
        assert env == {
            "LWS_LEADER_ADDRESS": "lws-1.lws.default",
            "LWS_GROUP_SIZE": "3",
            "LWS_WORKER_INDEX": "2",
        }


def test_fewer_replicas_take_whole_groups_away() -> None:
    with bare_cluster() as c:
        make(c)
        assert c.run_until(lambda: available(c), 30)
        c.client.patch(R.LEADER_WORKER_SET, "lws", {"spec": {"replicas": 1}}, "default")
        assert c.run_until(lambda: names(c) == ["lws-0", "lws-0-1", "lws-0-2"], 60)


def test_workers_may_wait_for_their_leader() -> None:
    with bare_cluster(startDelaySeconds=5) as c:
        make(c, 1, startupPolicy="LeaderReady")
        c.run_for(3)
        assert names(c) == ["lws-0"]
        assert c.run_until(lambda: available(c), 60)
        assert names(c) == ["lws-0", "lws-0-1", "lws-0-2"]


def test_a_group_that_loses_a_worker_starts_anew() -> None:
    with bare_cluster() as c:
        make(c, 1)
        assert c.run_until(lambda: available(c), 30)
        before = {p["metadata"]["uid"] for p in pods(c).values()}
        c.client.delete(R.POD, "lws-0-2", "default")

        def anew() -> bool:
            now = {p["metadata"]["uid"] for p in pods(c).values()}
            return len(now) == 3 and not now & before and available(c)

        assert c.run_until(anew, 120), names(c)


def test_groups_of_one_have_no_workers() -> None:
    with bare_cluster() as c:
        make(c, 2, size=1)
        assert c.run_until(lambda: available(c), 30)
        assert names(c) == ["lws-0", "lws-1"]


def test_subgroups_count_the_leader_into_the_first() -> None:
    with bare_cluster() as c:
        make(c, 1, size=5, parts={"subGroupPolicy": {"subGroupSize": 2}})
        assert c.run_until(lambda: len(pods(c)) == 5, 30)
        label = "leaderworkerset.sigs.k8s.io/subgroup-index"
        found = {n: p["metadata"]["labels"][label] for n, p in pods(c).items()}
        assert found == {
            "lws-0": "0",
            "lws-0-1": "0",
            "lws-0-2": "0",
            "lws-0-3": "1",
            "lws-0-4": "1",
        }


def test_a_steady_pace_starts_ray_jobs() -> None:
    with bare_cluster() as c:
        job = {"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {}}}}}
        spec = {"schedule": "@every 20s", "jobTemplate": job}
        c.client.create(
            R.RAY_CRON_JOB, {"metadata": {"name": "rc", "namespace": "default"}, "spec": spec}
        )
        c.run_for(45)
        assert len(c.client.list(R.RAY_JOB, "default").items) == 2

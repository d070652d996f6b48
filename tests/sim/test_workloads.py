"""Jobs, CronJobs, Deployments, StatefulSets, DaemonSets and claims."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.api import cron
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from kai_ray.sim.operators.job_pods import format_indices, parse_indices
from tests.sim.worlds import bare_cluster, exists, get, job, status_condition

RUN, CODE = "kai.scheduler/sim-run-time", "kai.scheduler/sim-exit-code"


def pods(c: EmbeddedCluster) -> list[Object]:
    return c.client.list(R.POD, "default").items


def done(c: EmbeddedCluster, name: str, kind: str = "Complete") -> bool:
    return status_condition(get(c, R.JOB, name), kind) == "True"


# ---------------------------------------------------------------------- Job


def test_a_job_runs_its_completions_a_few_at_a_time() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        c.client.create(R.JOB, job("j", parallelism=2, completions=5))
        most = 0

        def finished() -> bool:
            nonlocal most
            most = max(most, sum(not pod_facts.is_finished(p) for p in pods(c)))
            return done(c, "j")

        assert c.run_until(finished, 600)
        status = get(c, R.JOB, "j")["status"]
        assert most == 2 and status["succeeded"] == 5 and len(pods(c)) == 5
        assert not any(p["metadata"].get("finalizers") for p in pods(c)), "all pods are counted"


def test_an_indexed_job_completes_every_index_once() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        c.client.create(R.JOB, job("j", parallelism=3, completions=4, completionMode="Indexed"))
        assert c.run_until(lambda: done(c, "j"), 600)
        assert get(c, R.JOB, "j")["status"]["completedIndexes"] == "0-3"
        indices = [
            p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            for p in pods(c)
        ]
        assert sorted(indices) == ["0", "1", "2", "3"]
        assert {p["spec"]["hostname"] for p in pods(c)} == {f"j-{i}" for i in range(4)}


def test_failures_are_repeated_with_growing_pauses_up_to_the_limit() -> None:
    with bare_cluster() as c:
        c.client.create(R.JOB, job("j", backoffLimit=2, annotations={RUN: "1s", CODE: "1"}))
        start = c.clock.now()
        assert c.run_until(lambda: done(c, "j", "Failed"), 600)
        assert get(c, R.JOB, "j")["status"]["failed"] == 3
        assert 30 <= c.clock.now() - start < 40, "10 s and 20 s of pause, three runs"


def test_a_failure_that_the_policy_ignores_is_not_counted() -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}},
    ]
    with bare_cluster() as c:
        policy = {"podFailurePolicy": {"rules": rules}}
        c.client.create(
            R.JOB, job("ok", backoffLimit=0, annotations={RUN: "1s", CODE: "42"}, **policy)
        )
        c.client.create(
            R.JOB, job("bad", backoffLimit=9, annotations={RUN: "1s", CODE: "1"}, **policy)
        )
        c.run_for(120)
        assert not done(c, "ok", "Failed") and get(c, R.JOB, "ok")["status"].get("failed", 0) == 0
        assert done(c, "bad", "Failed")


def test_a_suspended_job_has_no_pods_and_counts_none_as_failed() -> None:
    with bare_cluster() as c:
        c.client.create(R.JOB, job("j", parallelism=3, completions=3, annotations={RUN: "60s"}))
        c.run_for(5)
        assert len(pods(c)) == 3
        c.client.patch(R.JOB, "j", {"spec": {"suspend": True}}, "default")
        assert c.run_until(lambda: not pods(c), 30)
        assert done(c, "j", "Suspended")
        c.client.patch(R.JOB, "j", {"spec": {"suspend": False}}, "default")
        assert c.run_until(lambda: done(c, "j"), 120)
        assert get(c, R.JOB, "j")["status"].get("failed", 0) == 0


def test_a_job_ends_at_its_deadline_and_goes_after_its_ttl() -> None:
    with bare_cluster() as c:
        spec: dict[str, Any] = {"activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 60}
        c.client.create(R.JOB, job("j", annotations={RUN: "1h"}, **spec))
        c.run_for(35)
        assert done(c, "j", "Failed")
        assert get(c, R.JOB, "j")["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
        c.run_for(60)
        assert not exists(c, R.JOB, "j") and not pods(c)


def test_a_work_queue_ends_when_one_pod_has_succeeded_and_the_rest_have_ended() -> None:
    with bare_cluster(runTime={"kind": "uniform", "meanSeconds": 30, "spread": 20}) as c:
        c.client.create(R.JOB, job("j", parallelism=3))
        assert c.run_until(lambda: done(c, "j"), 600)
        assert len(pods(c)) == 3


def test_pods_of_a_deleted_job_do_not_hang_on_their_finalizer() -> None:
    with bare_cluster() as c:
        c.client.create(R.JOB, job("j", parallelism=4, completions=4, annotations={RUN: "1h"}))
        c.run_for(5)
        c.client.delete(R.JOB, "j", "default")
        assert c.run_until(lambda: not pods(c), 60)


def test_an_evicted_pod_is_counted_once_and_replaced() -> None:
    with bare_cluster() as c:
        c.client.create(R.JOB, job("j", annotations={RUN: "60s"}))
        c.run_for(5)
        c.client.evict("default", pods(c)[0]["metadata"]["name"])
        assert c.run_until(lambda: done(c, "j"), 600)
        status = get(c, R.JOB, "j")["status"]
        assert (status["failed"], status["succeeded"]) == (1, 1)


@given(st.sets(st.integers(0, 60)))
def test_completed_indices_survive_their_short_form(indices: set[int]) -> None:
    assert parse_indices(format_indices(indices)) == indices


# ---------------------------------------------------------------------- CronJob


def cron_job(schedule: str, **spec: Any) -> Object:
    template = {"spec": job("x")["spec"]}
    return {
        "metadata": {"name": "cj", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


def test_a_cron_job_starts_jobs_and_keeps_the_newest() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        c.client.create(R.CRON_JOB, cron_job("*/5 * * * *", successfulJobsHistoryLimit=2))
        c.run_for(3600)
        assert 2 <= len(c.client.list(R.JOB).items) <= 3
        assert get(c, R.CRON_JOB, "cj")["status"]["lastScheduleTime"] == "2026-01-01T01:00:00Z"


@pytest.mark.parametrize(("policy", "alive"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_overlapping_runs_follow_the_policy(policy: str, alive: int) -> None:
    with bare_cluster(runTime={"meanSeconds": 1e6}) as c:
        c.client.create(R.CRON_JOB, cron_job("* * * * *", concurrencyPolicy=policy))
        c.run_for(200)
        assert len(c.client.list(R.JOB).items) == alive


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01 00:00:30", "2026-01-01 00:01:00"),
        ("0 9 * * mon-fri", "2026-01-02 10:00:00", "2026-01-05 09:00:00"),
        ("30 2 1,15 * *", "2026-01-01 03:00:00", "2026-01-15 02:30:00"),
        ("0 0 13 * 5", "2026-02-01 00:00:00", "2026-02-06 00:00:00"),
        ("0 0 29 2 *", "2026-03-01 00:00:00", "2028-02-29 00:00:00"),
        ("*/20 8-10/2 * jan,mar 0", "2026-01-04 08:41:00", "2026-01-04 10:00:00"),
        ("@weekly", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
        ("0 0 * * 7", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
    ],
)
def test_schedules_mean_what_cron_means(schedule: str, after: str, expected: str) -> None:
    assert cron.parse(schedule).after(at(after), UTC) == at(expected)


def test_a_schedule_follows_its_time_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert cron.parse("0 9 * * *").after(at("2026-07-01 00:00:00"), berlin) == at(
        "2026-07-01 07:00:00"
    )


@pytest.mark.parametrize(
    "text", ["", "* * * *", "61 * * * *", "* * 0 * *", "*/0 * * * *", "a * * * *", "5-1 * * * *"]
)
def test_a_wrong_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        cron.parse(text)


def test_a_day_that_never_comes_is_no_time() -> None:
    assert cron.parse("0 0 30 2 *").after(at("2026-01-01 00:00:00"), UTC) is None


# ---------------------------------------------------------------------- services


def deployment(replicas: int, image: str = "v1", **spec: Any) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


def available(c: EmbeddedCluster, count: int) -> bool:
    status = get(c, R.DEPLOYMENT, "web").get("status") or {}
    return status.get("availableReplicas", 0) == count and status.get("updatedReplicas", 0) == count


def test_a_deployment_rolls_over_without_falling_below_its_minimum() -> None:
    with bare_cluster(startDelaySeconds=5) as c:
        c.client.create(R.DEPLOYMENT, deployment(4))
        assert c.run_until(lambda: available(c, 4), 60)
        fewest = 99

        def rolled() -> bool:
            nonlocal fewest
            ready = [
                p
                for p in pods(c)
                if pod_facts.is_ready(p) and not p["metadata"].get("deletionTimestamp")
            ]
            fewest = min(fewest, len(ready))
            images = {p["spec"]["containers"][0]["image"] for p in ready}
            return images == {"v2"} and available(c, 4)

        containers = [{"name": "c", "image": "v2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        c.client.patch(R.DEPLOYMENT, "web", patch, "default")
        assert c.run_until(rolled, 300)
        assert fewest >= 3
        assert c.run_until(lambda: len(pods(c)) == 4, 60)


def test_recreate_ends_the_old_before_the_new() -> None:
    with bare_cluster() as c:
        c.client.create(R.DEPLOYMENT, deployment(3, strategy={"type": "Recreate"}))
        assert c.run_until(lambda: available(c, 3), 60)
        mixed = False

        def rolled() -> bool:
            nonlocal mixed
            images = {
                p["spec"]["containers"][0]["image"]
                for p in pods(c)
                if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")
            }
            mixed |= len(images) > 1
            return images == {"v2"} and available(c, 3)

        containers = [{"name": "c", "image": "v2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        c.client.patch(R.DEPLOYMENT, "web", patch, "default")
        assert c.run_until(rolled, 300) and not mixed


def test_a_deployment_scales_and_replaces() -> None:
    with bare_cluster() as c:
        c.client.create(R.DEPLOYMENT, deployment(2))
        assert c.run_until(lambda: available(c, 2), 60)
        c.client.patch(R.DEPLOYMENT, "web", {"spec": {"replicas": 5}}, "default")
        assert c.run_until(lambda: available(c, 5), 60)
        c.client.delete(R.POD, pods(c)[0]["metadata"]["name"], "default")
        c.run_for(10)
        assert available(c, 5)
        c.client.patch(R.DEPLOYMENT, "web", {"spec": {"replicas": 0}}, "default")
        assert c.run_until(lambda: not pods(c), 60)


def stateful_set(replicas: int, **spec: Any) -> Object:
    labels = {"app": "db"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    return {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


def test_a_stateful_set_starts_in_order_and_shrinks_from_the_end() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    with bare_cluster(startDelaySeconds=5) as c:
        c.client.create(R.STATEFUL_SET, stateful_set(3, volumeClaimTemplates=[claim]))
        c.run_for(2)
        assert [p["metadata"]["name"] for p in pods(c)] == ["db-0"]
        c.run_for(20)
        assert sorted(p["metadata"]["name"] for p in pods(c)) == ["db-0", "db-1", "db-2"]
        assert get(c, R.PVC, "data-db-1")["status"]["phase"] == "Bound"
        c.client.patch(R.STATEFUL_SET, "db", {"spec": {"replicas": 1}}, "default")
        c.run_for(20)
        assert [p["metadata"]["name"] for p in pods(c)] == ["db-0"]


def test_a_stateful_set_rolls_over_one_pod_at_a_time() -> None:
    with bare_cluster(startDelaySeconds=5) as c:
        c.client.create(R.STATEFUL_SET, stateful_set(3))
        c.run_for(30)
        containers = [{"name": "c", "image": "v2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        c.client.patch(R.STATEFUL_SET, "db", patch, "default")
        fewest = 3

        def rolled() -> bool:
            nonlocal fewest
            ready = [p for p in pods(c) if pod_facts.is_ready(p)]
            fewest = min(fewest, len(ready))
            images = {p["spec"]["containers"][0]["image"] for p in ready}
            return images == {"v2"} and len(ready) == 3

        assert c.run_until(rolled, 300) and fewest == 2


def test_a_daemon_set_has_a_pod_for_every_node_that_takes_it() -> None:
    with EmbeddedCluster(ClusterConfig.short("3x8"), VirtualClock()) as c:
        labels = {"app": "agent"}
        containers = [{"name": "c", "image": "x"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        meta = {"name": "a", "namespace": "default"}
        c.client.create(R.DAEMON_SET, {"metadata": meta, "spec": spec})
        c.run_for(5)
        assert sorted(p["spec"]["nodeName"] for p in pods(c)) == ["node-0", "node-1", "node-2"]
        assert get(c, R.DAEMON_SET, "a")["status"]["numberReady"] == 3
        c.client.delete(R.NODE, "node-1")
        c.run_for(5)
        assert sorted(p["spec"]["nodeName"] for p in pods(c)) == ["node-0", "node-2"]

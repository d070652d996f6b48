"""RayCluster, RayJob and RayService stand-ins: scaling, suspension, modes, retries, upgrades."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import bare_cluster, cluster_spec, exists, get, job_spec


def make(c: EmbeddedCluster, resource, name: str, spec: Object, **annotations: str) -> None:
    notes = {f"kai.scheduler/sim-{k.replace('_', '-')}": v for k, v in annotations.items()}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    c.client.create(resource, {"metadata": meta, "spec": spec})


def pods(c: EmbeddedCluster, role: str = "") -> list[Object]:
    found = c.client.list(R.POD, "default").items
    return [
        p
        for p in found
        if role in ("", (p["metadata"].get("labels") or {}).get("ray.io/node-type"))
    ]


def patch_group(c: EmbeddedCluster, name: str, **fields: Any) -> None:
    ops = [
        {"op": "add", "path": f"/spec/workerGroupSpecs/0/{k}", "value": v}
        for k, v in fields.items()
    ]
    c.client.patch(R.RAY_CLUSTER, name, ops, "default", patch_type="json")


def state(c: EmbeddedCluster, name: str = "rc") -> str:
    return (get(c, R.RAY_CLUSTER, name).get("status") or {}).get("state", "")


def ready(c: EmbeddedCluster, name: str = "rc") -> bool:
    return c.run_until(lambda: state(c, name) == "ready", 60)


# ---------------------------------------------------------------------- RayCluster


def test_workers_wait_for_the_head_before_they_run() -> None:
    with bare_cluster(startDelaySeconds=5) as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec())
        assert c.run_until(lambda: len(pods(c)) == 3, 5)
        head = pods(c, "head")[0]
        c.client.delete(R.POD, head["metadata"]["name"], "default")
        c.run_for(7)
        assert ready(c)
        assert all(pod_facts.phase(p) == "Running" for p in pods(c))


def test_a_cluster_grows_shrinks_and_replaces_a_lost_worker_under_a_new_name() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(2))
        assert ready(c)
        patch_group(c, "rc", replicas=4)
        assert c.run_until(lambda: len(pods(c, "worker")) == 4, 5)
        indices = {
            p["metadata"]["labels"]["ray.io/worker-group-replica-index"] for p in pods(c, "worker")
        }
        assert indices == {"0", "1", "2", "3"}
        patch_group(c, "rc", replicas=1)
        assert c.run_until(lambda: len(pods(c, "worker")) == 1, 5)
        lost = pods(c, "worker")[0]["metadata"]["name"]
        c.client.delete(R.POD, lost, "default")
        assert c.run_until(
            lambda: [p["metadata"]["name"] for p in pods(c, "worker")] not in ([lost], []), 60
        )


def test_replicas_stay_within_their_bounds() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(1, group={"minReplicas": 3}))
        assert c.run_until(lambda: len(pods(c, "worker")) == 3, 5)


def test_an_autoscaled_cluster_removes_only_the_workers_it_is_told_to() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(3, enableInTreeAutoscaling=True))
        assert ready(c)
        names = sorted(p["metadata"]["name"] for p in pods(c, "worker"))
        patch_group(c, "rc", replicas=2)
        c.run_for(5)
        assert len(pods(c, "worker")) == 3, "KubeRay leaves the choice to the autoscaler"
        patch_group(c, "rc", scaleStrategy={"workersToDelete": [names[1]]})
        c.run_for(5)
        assert sorted(p["metadata"]["name"] for p in pods(c, "worker")) == [names[0], names[2]]


def test_a_multi_host_replica_lives_and_dies_as_a_whole() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(2, group={"numOfHosts": 3}))
        assert ready(c)
        before = {p["metadata"]["name"]: p["metadata"]["labels"] for p in pods(c, "worker")}
        assert len(before) == 6
        victim = next(iter(before))
        replica = before[victim]["ray.io/worker-group-replica-name"]
        mates = {n for n, of in before.items() if of["ray.io/worker-group-replica-name"] == replica}
        c.client.delete(R.POD, victim, "default")
        c.run_for(30)
        after = {p["metadata"]["name"] for p in pods(c, "worker")}
        assert len(after) == 6 and not after & mates
        assert after & set(before) == set(before) - mates, "the other replica was left alone"


def test_a_suspended_cluster_gives_its_pods_back_and_returns() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec())
        assert ready(c)
        c.client.patch(R.RAY_CLUSTER, "rc", {"spec": {"suspend": True}}, "default")
        assert c.run_until(lambda: state(c) == "suspended", 60) and not pods(c)
        c.client.patch(R.RAY_CLUSTER, "rc", {"spec": {"suspend": False}}, "default")
        assert ready(c) and len(pods(c)) == 3


def test_the_strategy_recreate_replaces_all_pods_of_a_changed_cluster() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(upgradeStrategy={"type": "Recreate"}))
        assert ready(c)
        old = {p["metadata"]["name"] for p in pods(c)}
        patch_group(c, "rc", replicas=3)
        c.run_for(10)
        assert old < {p["metadata"]["name"] for p in pods(c)}, "replicas are no change"
        c.client.patch(R.RAY_CLUSTER, "rc", {"spec": {"rayVersion": "2.50.0"}}, "default")
        c.run_for(30)
        assert len(pods(c)) == 4 and not old & {p["metadata"]["name"] for p in pods(c)}


def test_a_suspended_group_has_no_pods() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec())
        assert ready(c)
        patch_group(c, "rc", suspend=True)
        assert c.run_until(lambda: not pods(c, "worker"), 30)
        assert pods(c, "head")


def test_redis_is_cleaned_before_a_fault_tolerant_cluster_goes() -> None:
    options = {"redisAddress": "redis:6379"}
    with bare_cluster() as c:
        make(c, R.RAY_CLUSTER, "rc", cluster_spec(gcsFaultToleranceOptions=options))
        assert ready(c)
        c.client.delete(R.RAY_CLUSTER, "rc", "default")
        assert c.run_until(lambda: exists(c, R.JOB, "rc-redis-cleanup"), 60)
        assert c.run_until(lambda: not exists(c, R.RAY_CLUSTER, "rc"), 400)
        assert not [p for p in pods(c) if not pod_facts.is_finished(p)]


# ---------------------------------------------------------------------- RayJob


def job_status(c: EmbeddedCluster, name: str = "rj") -> Object:
    return get(c, R.RAY_JOB, name).get("status") or {}


def reaches(c: EmbeddedCluster, deployment: str, timeout_s: float = 600) -> bool:
    return c.run_until(lambda: job_status(c).get("jobDeploymentStatus") == deployment, timeout_s)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_a_rayjob_succeeds_after_its_run_time_in_every_mode(mode: str) -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", job_spec(mode), run_time="40s")
        start = c.clock.now()
        assert reaches(c, "Complete")
        assert 40 <= c.clock.now() - start < 45
        status = job_status(c)
        assert status["jobStatus"] == "SUCCEEDED" and status["succeeded"] == 1
        submitters = [p for p in pods(c) if "job-name" in (p["metadata"].get("labels") or {})]
        assert len(submitters) == (1 if mode == "K8sJobMode" else 0)


def test_the_submitter_exists_only_once_the_cluster_is_ready() -> None:
    with bare_cluster(startDelaySeconds=20) as c:
        make(c, R.RAY_JOB, "rj", job_spec())
        c.run_for(15)
        assert not exists(c, R.JOB, "rj") and job_status(c)["jobDeploymentStatus"] == "Initializing"
        assert reaches(c, "Running")
        assert exists(c, R.JOB, "rj")


def test_an_interactive_job_waits_for_the_id_of_a_submission() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", job_spec("InteractiveMode"), run_time="10s")
        assert reaches(c, "Waiting")
        c.client.patch(R.RAY_JOB, "rj", {"spec": {"jobId": "mine"}}, "default")
        assert reaches(c, "Complete") and job_status(c)["jobId"] == "mine"


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_a_failed_attempt_is_repeated_on_a_new_cluster(mode: str) -> None:
    with bare_cluster() as c:
        spec = job_spec(mode, backoffLimit=2)
        make(c, R.RAY_JOB, "rj", spec, run_time="5s", exit_code="1,0")
        names: set[str] = set()

        def done() -> bool:
            status = job_status(c)
            names.add(status.get("rayClusterName", ""))
            return status.get("jobDeploymentStatus") == "Complete"

        assert c.run_until(done, 600)
        status = job_status(c)
        assert (status["failed"], status["succeeded"]) == (1, 1)
        assert len(names - {""}) == 2, names


def test_without_a_limit_a_failure_is_final() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", job_spec("HTTPMode"), run_time="5s", exit_code="1")
        assert reaches(c, "Failed")
        assert job_status(c)["jobStatus"] == "FAILED" and job_status(c)["reason"] == "AppFailed"


def test_suspending_deletes_the_cluster_and_resuming_starts_anew() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", job_spec(shutdownAfterJobFinishes=True), run_time="30s")
        assert reaches(c, "Running")
        first = job_status(c)["rayClusterName"]
        c.client.patch(R.RAY_JOB, "rj", {"spec": {"suspend": True}}, "default")
        assert reaches(c, "Suspended") and not exists(c, R.RAY_CLUSTER, first)
        assert c.run_until(lambda: not pods(c), 10)
        c.client.patch(R.RAY_JOB, "rj", {"spec": {"suspend": False}}, "default")
        assert reaches(c, "Running") and job_status(c)["rayClusterName"] != first
        assert reaches(c, "Complete")


def test_a_job_created_suspended_makes_nothing_until_it_is_resumed() -> None:
    with bare_cluster() as c:
        make(
            c, R.RAY_JOB, "rj", job_spec(shutdownAfterJobFinishes=True, suspend=True), run_time="5s"
        )
        assert reaches(c, "Suspended") and not pods(c)
        c.client.patch(R.RAY_JOB, "rj", {"spec": {"suspend": False}}, "default")
        assert reaches(c, "Complete")


def test_the_cluster_goes_some_time_after_the_job_has_finished() -> None:
    with bare_cluster() as c:
        spec = job_spec(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=30)
        make(c, R.RAY_JOB, "rj", spec, run_time="5s")
        assert reaches(c, "Complete")
        c.run_for(25)
        assert pods(c, "head")
        c.run_for(20)
        assert not pods(c, "head")


def test_deletion_rules_apply_in_their_time() -> None:
    rules = [
        {"policy": "DeleteWorkers", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 10}},
        {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}},
        {"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 120}},
    ]
    with bare_cluster() as c:
        spec = job_spec("HTTPMode", deletionStrategy={"deletionRules": rules})
        make(c, R.RAY_JOB, "rj", spec, run_time="5s")
        assert reaches(c, "Complete")
        c.run_for(20)
        assert pods(c, "head") and not pods(c, "worker")
        c.run_for(50)
        assert not pods(c, "head")
        c.run_for(60)
        assert not exists(c, R.RAY_JOB, "rj")


def test_a_deadline_ends_a_job_for_good() -> None:
    with bare_cluster() as c:
        spec = job_spec("HTTPMode", activeDeadlineSeconds=20, backoffLimit=3)
        make(c, R.RAY_JOB, "rj", spec, run_time="1h")
        assert reaches(c, "Failed", 60)
        assert job_status(c)["reason"] == "DeadlineExceeded" and job_status(c)["failed"] == 1


def test_a_job_can_use_a_cluster_that_is_there() -> None:
    with bare_cluster() as c:
        spec = {"entrypoint": "x", "clusterSelector": {"ray.io/cluster": "shared"}}
        make(c, R.RAY_JOB, "rj", spec, run_time="5s")
        c.run_for(30)
        assert job_status(c)["jobDeploymentStatus"] == "Initializing"
        make(c, R.RAY_CLUSTER, "shared", cluster_spec())
        assert reaches(c, "Complete")
        assert exists(c, R.RAY_CLUSTER, "shared")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"entrypoint": "x"}, "spec.rayClusterSpec"),
        (job_spec(suspend=True), "spec.suspend"),
        (job_spec(backoffLimit=-1), "spec.backoffLimit"),
    ],
)
def test_a_wrong_job_is_told_which_field_is_wrong(spec: Object, field: str) -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", spec)
        assert reaches(c, "ValidationFailed", 5)
        assert job_status(c)["message"].startswith(field)


def test_deleting_a_job_takes_everything_with_it() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_JOB, "rj", job_spec(), run_time="1h")
        assert reaches(c, "Running")
        c.client.delete(R.RAY_JOB, "rj", "default")
        assert c.run_until(lambda: not pods(c) and not exists(c, R.RAY_JOB, "rj"), 60)
        assert not c.client.list(R.RAY_CLUSTER).items and not c.client.list(R.JOB).items


def test_a_cron_job_starts_rayjobs_by_the_clock() -> None:
    with bare_cluster() as c:
        spec = {"schedule": "*/10 * * * *", "jobTemplate": job_spec("HTTPMode")}
        make(c, R.RAY_CRON_JOB, "often", spec)
        c.run_for(1805)
        jobs = c.client.list(R.RAY_JOB).items
        assert len(jobs) == 3
        assert all(j["metadata"]["labels"]["ray.io/cronjob-name"] == "often" for j in jobs)


# ---------------------------------------------------------------------- RayService


def service_ready(c: EmbeddedCluster) -> bool:
    return (get(c, R.RAY_SERVICE, "rs").get("status") or {}).get("serviceStatus") == "Running"


def test_an_upgrade_runs_two_clusters_until_the_new_one_serves() -> None:
    with bare_cluster(startDelaySeconds=10) as c:
        make(c, R.RAY_SERVICE, "rs", {"rayClusterConfig": cluster_spec()})
        assert c.run_until(lambda: service_ready(c), 60)
        old = get(c, R.RAY_SERVICE, "rs")["status"]["activeServiceStatus"]["rayClusterName"]
        patch = {"spec": {"rayClusterConfig": {"rayVersion": "2.50.0"}}}
        c.client.patch(R.RAY_SERVICE, "rs", patch, "default")
        c.run_for(5)
        status = get(c, R.RAY_SERVICE, "rs")["status"]
        assert status["activeServiceStatus"]["rayClusterName"] == old
        new = status["pendingServiceStatus"]["rayClusterName"]
        assert len(c.client.list(R.RAY_CLUSTER).items) == 2 and service_ready(c)

        def moved() -> bool:
            now = get(c, R.RAY_SERVICE, "rs")["status"]
            return now["activeServiceStatus"]["rayClusterName"] == new

        assert c.run_until(moved, 60)
        selector = get(c, R.SERVICE, "rs-serve-svc")["spec"]["selector"]
        assert selector["ray.io/cluster"] == new
        c.run_for(100)
        assert not exists(c, R.RAY_CLUSTER, old) and service_ready(c)


def test_a_change_of_replicas_is_no_upgrade() -> None:
    with bare_cluster() as c:
        make(c, R.RAY_SERVICE, "rs", {"rayClusterConfig": cluster_spec()})
        assert c.run_until(lambda: service_ready(c), 60)
        ops = [
            {
                "op": "replace",
                "path": "/spec/rayClusterConfig/workerGroupSpecs/0/replicas",
                "value": 5,
            }
        ]
        c.client.patch(R.RAY_SERVICE, "rs", ops, "default", patch_type="json")
        assert c.run_until(lambda: len(pods(c, "worker")) == 5, 60)
        assert len(c.client.list(R.RAY_CLUSTER).items) == 1

"""Kubeflow's training jobs, TrainJob and JobSet: environment, success, retries, order, pauses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object, Resource
from kai_ray.sim import pod_facts
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import bare_cluster, exists, get, status_condition

CASES = {
    "PyTorchJob": (R.PYTORCH_JOB, "pytorchReplicaSpecs", "pytorch", ("Master", "Worker")),
    "TFJob": (R.TF_JOB, "tfReplicaSpecs", "tensorflow", ("Worker",)),
    "XGBoostJob": (R.XGBOOST_JOB, "xgbReplicaSpecs", "xgboost", ("Master", "Worker")),
    "PaddleJob": (R.PADDLE_JOB, "paddleReplicaSpecs", "paddle", ("Worker",)),
    "JAXJob": (R.JAX_JOB, "jaxReplicaSpecs", "jax", ("Worker",)),
    "MPIJob": (R.MPI_JOB, "mpiReplicaSpecs", "mpi", ("Launcher", "Worker")),
}


def submit(
    c: EmbeddedCluster,
    kind: str,
    replicas: dict[str, Object],
    policy: Object | None = None,
    **spec: Any,
) -> Resource:
    """A job "t" with these replica specs; each gets a container."""
    resource, field, container, _ = CASES[kind]
    specs = {}
    for name, given in replicas.items():
        template = {"spec": {"containers": [{"name": container, "image": "x"}]}}
        specs[name] = {"template": template, **given}
        if "annotations" in given:
            template["metadata"] = {"annotations": specs[name].pop("annotations")}
    body = {field: specs, "runPolicy": policy or {}, **spec}
    c.client.create(resource, {"metadata": {"name": "t", "namespace": "default"}, "spec": body})
    return resource


def condition(c: EmbeddedCluster, resource: Resource, kind: str) -> bool:
    try:
        return status_condition(get(c, resource, "t"), kind) == "True"
    except NotFound:
        return False


def env(c: EmbeddedCluster, pod: str) -> dict[str, str]:
    main = get(c, R.POD, pod)["spec"]["containers"][0]
    return {e["name"]: e.get("value", "") for e in main.get("env") or ()}


def code(value: str, run_time: str = "5s") -> dict[str, str]:
    return {"kai.scheduler/sim-run-time": run_time, "kai.scheduler/sim-exit-code": value}


@pytest.mark.parametrize("kind", CASES)
def test_a_job_runs_and_succeeds(kind: str) -> None:
    with bare_cluster(runTime={"meanSeconds": 20}) as c:
        roles = CASES[kind][3]
        resource = submit(c, kind, {r: {"replicas": 2 if r == "Worker" else 1} for r in roles})
        assert c.run_until(lambda: condition(c, resource, "Running"), 30)
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 60)
        status = get(c, resource, "t")["status"]
        assert status["startTime"] and status["completionTime"]
        assert not condition(c, resource, "Running"), "a finished job does not run"


@pytest.mark.parametrize("kind", CASES)
def test_a_suspended_job_has_no_pods_and_runs_once_resumed(kind: str) -> None:
    with bare_cluster(runTime={"meanSeconds": 20}) as c:
        roles = CASES[kind][3]
        resource = submit(c, kind, {r: {"replicas": 1} for r in roles}, {"suspend": True})
        c.run_for(5)
        assert condition(c, resource, "Suspended") and not c.client.list(R.POD).items
        c.client.patch(resource, "t", {"spec": {"runPolicy": {"suspend": False}}}, "default")
        assert c.run_until(lambda: condition(c, resource, "Running"), 30)
        c.client.patch(resource, "t", {"spec": {"runPolicy": {"suspend": True}}}, "default")
        assert c.run_until(lambda: not c.client.list(R.POD).items, 30)
        c.client.patch(resource, "t", {"spec": {"runPolicy": {"suspend": False}}}, "default")
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 120)


@pytest.mark.parametrize("kind", CASES)
def test_a_failure_without_a_retry_fails_the_job(kind: str) -> None:
    with bare_cluster(runTime={"meanSeconds": 20}) as c:
        lead = CASES[kind][3][0]
        specs = {r: {"replicas": 1, "restartPolicy": "Never"} for r in CASES[kind][3]}
        specs[lead]["annotations"] = code("7")
        resource = submit(c, kind, specs)
        assert c.run_until(lambda: condition(c, resource, "Failed"), 60)


@pytest.mark.parametrize(("clean", "left"), [("None", 3), ("Running", 1), ("All", 0)])
def test_cleaning_follows_the_policy(clean: str, left: int) -> None:
    with bare_cluster() as c:
        master = {"replicas": 1, "annotations": code("0")}
        worker = {"replicas": 2, "annotations": code("0", "1h")}
        specs = {"Master": master, "Worker": worker}
        resource = submit(c, "PyTorchJob", specs, {"cleanPodPolicy": clean})
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 60)
        c.run_for(10)
        assert len(c.client.list(R.POD).items) == left


def test_a_job_goes_some_time_after_its_end() -> None:
    with bare_cluster(runTime={"meanSeconds": 5}) as c:
        policy = {"ttlSecondsAfterFinished": 30}
        resource = submit(c, "JAXJob", {"Worker": {"replicas": 1}}, policy)
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 60)
        c.run_for(20)
        assert exists(c, resource, "t")
        c.run_for(20)
        assert not exists(c, resource, "t")


def test_a_job_fails_at_its_deadline() -> None:
    with bare_cluster() as c:
        spec = {"Worker": {"replicas": 1, "annotations": code("0", "1h")}}
        resource = submit(c, "JAXJob", spec, {"activeDeadlineSeconds": 60})
        c.run_for(55)
        assert not condition(c, resource, "Failed")
        c.run_for(10)
        assert condition(c, resource, "Failed")


def test_a_restarting_worker_fails_the_job_at_the_backoff_limit() -> None:
    with bare_cluster() as c:
        spec = {"Worker": {"replicas": 1, "restartPolicy": "OnFailure", "annotations": code("1")}}
        resource = submit(c, "PyTorchJob", spec, {"backoffLimit": 2})
        assert c.run_until(lambda: condition(c, resource, "Failed"), 600)


def exit_code_job(c: EmbeddedCluster, codes: str) -> Resource:
    worker = {"replicas": 1, "restartPolicy": "ExitCode", "annotations": code(codes)}
    return submit(c, "PyTorchJob", {"Worker": worker})


def test_an_exit_by_signal_is_tried_again() -> None:
    with bare_cluster() as c:
        resource = exit_code_job(c, "137")
        c.run_for(1)
        first = get(c, R.POD, "t-worker-0")["metadata"]["uid"]

        def replaced() -> bool:
            found = exists(c, R.POD, "t-worker-0")
            return found and get(c, R.POD, "t-worker-0")["metadata"]["uid"] != first

        assert c.run_until(replaced, 60) and not condition(c, resource, "Failed")


def test_another_exit_code_is_final() -> None:
    with bare_cluster() as c:
        resource = exit_code_job(c, "1")
        assert c.run_until(lambda: condition(c, resource, "Failed"), 60)


def test_an_elastic_job_scales_and_its_environment_says_the_range() -> None:
    with bare_cluster() as c:
        policy = {"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d"}
        worker = {"replicas": 3, "annotations": code("0", "1h")}
        resource = submit(c, "PyTorchJob", {"Worker": worker}, elasticPolicy=policy)
        assert c.run_until(lambda: len(c.client.list(R.POD).items) == 3, 5)
        assert env(c, "t-worker-1")["PET_NNODES"] == "1:3"
        assert env(c, "t-worker-1")["PET_RDZV_ENDPOINT"] == "t-worker-0:23456"
        ops = [{"op": "replace", "path": "/spec/pytorchReplicaSpecs/Worker/replicas", "value": 1}]
        c.client.patch(resource, "t", ops, "default", patch_type="json")
        assert c.run_until(lambda: len(c.client.list(R.POD).items) == 1, 10)
        assert exists(c, R.POD, "t-worker-0")


def test_the_chief_decides_a_tensorflow_job_and_parameter_servers_never_end() -> None:
    with bare_cluster(runTime={"meanSeconds": 600}) as c:
        specs = {
            "PS": {"replicas": 2},
            "Worker": {"replicas": 2},
            "Chief": {"replicas": 1, "annotations": code("0", "30s")},
        }
        resource = submit(c, "TFJob", specs, {"cleanPodPolicy": "Running"})
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 60)
        config = json.loads(env(c, "t-chief-0")["TF_CONFIG"])
        assert config["task"] == {"type": "chief", "index": 0}
        assert config["cluster"]["ps"] == ["t-ps-0.default.svc:2222", "t-ps-1.default.svc:2222"]
        c.run_for(10)
        assert [p["metadata"]["name"] for p in c.client.list(R.POD).items] == ["t-chief-0"]


def test_an_mpi_launcher_ends_the_workers() -> None:
    with bare_cluster(runTime={"meanSeconds": 30}) as c:
        specs = {"Launcher": {}, "Worker": {"replicas": 2}}
        resource = submit(c, "MPIJob", specs, {"cleanPodPolicy": "Running"})
        assert c.run_until(lambda: len(c.client.list(R.POD).items) == 3, 5)
        assert get(c, R.CONFIG_MAP, "t-config")["data"]["hostfile"].count("slots=1") == 2
        assert c.run_until(lambda: condition(c, resource, "Succeeded"), 60)
        c.run_for(10)
        assert [p["metadata"]["name"] for p in c.client.list(R.POD).items] == ["t-launcher"]


# ---------------------------------------------------------------------- JobSet


def jobset(c: EmbeddedCluster, groups: list[Object], **spec: Any) -> None:
    replicated = []
    for group in groups:
        job = {"parallelism": group.pop("pods", 1), "completions": group.pop("completions", None)}
        job = {k: v for k, v in job.items() if v is not None}
        job.setdefault("completions", job["parallelism"])
        containers = [{"name": "c", "image": "x"}]
        meta = {"annotations": group.pop("annotations", {})}
        job["template"] = {
            "metadata": meta,
            "spec": {"restartPolicy": "Never", "containers": containers},
        }
        job["backoffLimit"] = 0
        replicated.append({"replicas": 1, "template": {"spec": job}, **group})
    meta = {"name": "js", "namespace": "default"}
    c.client.create(R.JOB_SET, {"metadata": meta, "spec": {"replicatedJobs": replicated, **spec}})


def js(c: EmbeddedCluster, kind: str) -> bool:
    return status_condition(get(c, R.JOB_SET, "js"), kind) == "True"


def job_names(c: EmbeddedCluster) -> set[str]:
    return {j["metadata"]["name"] for j in c.client.list(R.JOB).items}


def test_a_jobset_completes_when_all_its_jobs_have() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        jobset(c, [{"name": "a", "replicas": 2, "pods": 2}, {"name": "b"}])
        c.run_for(5)
        assert job_names(c) == {"js-a-0", "js-a-1", "js-b-0"} and exists(c, R.SERVICE, "js")
        assert c.run_until(lambda: js(c, "Completed"), 60)


def test_a_job_that_depends_on_another_is_made_after_it() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        after = [{"name": "prepare", "status": "Complete"}]
        jobset(c, [{"name": "prepare"}, {"name": "train", "dependsOn": after}])
        c.run_for(5)
        assert job_names(c) == {"js-prepare-0"}
        c.run_for(10)
        assert job_names(c) == {"js-prepare-0", "js-train-0"}
        assert c.run_until(lambda: js(c, "Completed"), 60)


def test_in_order_start_waits_for_readiness() -> None:
    with bare_cluster(runTime={"meanSeconds": 60}, startDelaySeconds=10) as c:
        order = {"startupPolicyOrder": "InOrder"}
        jobset(c, [{"name": "a"}, {"name": "b"}], startupPolicy=order)
        c.run_for(5)
        assert job_names(c) == {"js-a-0"}
        c.run_for(10)
        assert job_names(c) == {"js-a-0", "js-b-0"}


def test_one_group_can_decide_and_the_rest_is_ended() -> None:
    with bare_cluster(runTime={"meanSeconds": 1e6}) as c:
        lead = {"name": "lead", "annotations": code("0")}
        policy = {"operator": "All", "targetReplicatedJobs": ["lead"]}
        jobset(c, [lead, {"name": "rest"}], successPolicy=policy)
        assert c.run_until(lambda: js(c, "Completed"), 60)
        c.run_for(10)
        assert not [p for p in c.client.list(R.POD).items if not pod_facts.is_finished(p)]


def test_failures_restart_the_set_up_to_its_limit() -> None:
    with bare_cluster(runTime={"meanSeconds": 1000}) as c:
        bad = {"name": "bad", "annotations": code("1")}
        jobset(c, [bad, {"name": "other"}], failurePolicy={"maxRestarts": 2})
        assert c.run_until(lambda: js(c, "Failed"), 600)
        assert get(c, R.JOB_SET, "js")["status"]["restarts"] == 2


def test_without_a_failure_policy_one_failed_job_fails_the_set() -> None:
    with bare_cluster() as c:
        jobset(c, [{"name": "bad", "annotations": code("1")}])
        assert c.run_until(lambda: js(c, "Failed"), 60)


def test_a_suspended_set_has_suspended_jobs() -> None:
    with bare_cluster(runTime={"meanSeconds": 30}) as c:
        jobset(c, [{"name": "a"}], suspend=True)
        c.run_for(5)
        assert job_names(c) == {"js-a-0"} and not c.client.list(R.POD).items
        c.client.patch(R.JOB_SET, "js", {"spec": {"suspend": False}}, "default")
        assert c.run_until(lambda: js(c, "Completed"), 60)


# ---------------------------------------------------------------------- TrainJob

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def runtime(
    c: EmbeddedCluster, policy: Object, groups: list[tuple[str, str]], **extra: Any
) -> None:
    replicated = []
    for name, step in groups:
        container = name if step.endswith("initializer") else "node"
        template = {
            "metadata": {"labels": {STEP: step}} if step else {},
            "spec": {"template": {"spec": {"containers": [{"name": container, "image": "base"}]}}},
        }
        replicated.append({"name": name, "template": template, **extra.get(name, {})})
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": replicated}}}
    c.client.create(R.CLUSTER_TRAINING_RUNTIME, {"metadata": {"name": "rt"}, "spec": spec})


def train(c: EmbeddedCluster, **spec: Any) -> None:
    body = {"runtimeRef": {"name": "rt"}, "trainer": {"numNodes": 2, "image": "mine"}, **spec}
    c.client.create(R.TRAIN_JOB, {"metadata": {"name": "tj", "namespace": "default"}, "spec": body})


def tj(c: EmbeddedCluster, kind: str) -> bool:
    return status_condition(get(c, R.TRAIN_JOB, "tj"), kind) == "True"


@pytest.mark.parametrize(
    ("policy", "variable", "value"),
    [
        ({"torch": {}}, "PET_NNODES", "2"),
        ({"jax": {}}, "JAX_COORDINATOR_ADDRESS", "tj-node-0-0.tj:29500"),
        ({"xgboost": {}}, "DMLC_NUM_WORKER", "2"),
    ],
)
def test_each_framework_gets_its_environment(policy: Object, variable: str, value: str) -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        runtime(c, {"numNodes": 1, **policy}, [("node", "trainer")])
        train(c)
        assert c.run_until(lambda: len(c.client.list(R.POD).items) == 2, 5)
        container = c.client.list(R.POD).items[0]["spec"]["containers"][0]
        assert container["image"] == "mine"
        assert {e["name"]: e.get("value") for e in container["env"]}[variable] == value
        assert c.run_until(lambda: tj(c, "Complete"), 60)


def test_initializers_run_before_the_trainer() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        after = {"node": {"dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}}
        groups = [("dataset-initializer", "dataset-initializer"), ("node", "trainer")]
        runtime(c, {"numNodes": 1, "torch": {}}, groups, **after)
        train(c, initializer={"dataset": {"storageUri": "hf://a/b"}})
        c.run_for(5)
        assert job_names(c) == {"tj-dataset-initializer-0"}
        first = c.client.list(R.POD).items[0]["spec"]["containers"][0]
        assert {"name": "STORAGE_URI", "value": "hf://a/b"} in first["env"]
        assert c.run_until(lambda: tj(c, "Complete"), 60)


def test_an_mpi_trainjob_counts_its_launcher_as_a_node() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        policy = {"numNodes": 1, "mpi": {"numProcPerNode": 1, "runLauncherAsNode": True}}
        runtime(c, policy, [("node", ""), ("launcher", "trainer")])
        train(c, trainer={"numNodes": 4})
        assert c.run_until(lambda: len(c.client.list(R.POD).items) == 4, 5)
        hosts = get(c, R.CONFIG_MAP, "tj-mpi-hostfile")["data"]["hostfile"].splitlines()
        assert len(hosts) == 4 and hosts[-1].startswith("tj-launcher-0-0.tj")


def test_a_missing_runtime_is_named_and_its_arrival_starts_the_job() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        train(c)
        c.run_for(5)
        failed = next(
            x for x in get(c, R.TRAIN_JOB, "tj")["status"]["conditions"] if x["type"] == "Failed"
        )
        assert "spec.runtimeRef.name" in failed["message"]
        runtime(c, {"numNodes": 1, "torch": {}}, [("node", "trainer")])
        assert c.run_until(lambda: tj(c, "Complete"), 60)


def test_a_suspended_trainjob_resumes() -> None:
    with bare_cluster(runTime={"meanSeconds": 10}) as c:
        runtime(c, {"numNodes": 1, "torch": {}}, [("node", "trainer")])
        train(c, suspend=True)
        c.run_for(5)
        assert tj(c, "Suspended") and not c.client.list(R.POD).items
        c.client.patch(R.TRAIN_JOB, "tj", {"spec": {"suspend": False}}, "default")
        assert c.run_until(lambda: tj(c, "Complete"), 60)

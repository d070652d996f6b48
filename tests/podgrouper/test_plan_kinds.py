"""What every other kind becomes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.podgrouper.planning import (
    Object,
    gang,
    gangs,
    plans,
    pods,
    refusal,
    shape,
    workload,
)

KUBEFLOW = "kubeflow.org/v1"


def training(kind: str, specs: str, numbers: dict[str, int | None], **spec: Any) -> Object:
    rows = {
        name: {"template": pods(), **({} if n is None else {"replicas": n})}
        for name, n in numbers.items()
    }
    return workload(KUBEFLOW, kind, {specs: rows, **spec})


@pytest.mark.parametrize(
    ("kind", "specs", "numbers"),
    [
        ("TFJob", "tfReplicaSpecs", {"PS": 2, "Worker": 4, "Chief": 1}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 3}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 5}),
        ("PaddleJob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}),
    ],
)
def test_a_training_job_starts_with_all_its_replicas(
    kind: str, specs: str, numbers: dict[str, int | None]
) -> None:
    total = sum(n or 0 for n in numbers.values())
    found = gang(training(kind, specs, numbers))
    assert (found.min_member, found.pods) == (total, total)
    assert found.requests["cpu"] == str(total)
    policy = {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}
    fewer = gang(training(kind, specs, numbers, **policy))
    assert (fewer.min_member, fewer.pods) == (2, total)


def test_what_the_operator_adds_is_asked_for_too() -> None:
    torch = gang(training("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}))
    assert torch.requests["memory"] == "30Mi"
    alone = gang(training("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 3}))
    assert "memory" not in alone.requests
    mpi = training("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2})
    assert gang(mpi).requests["ephemeral-storage"] == "5Gi"
    assert "memory" not in gang({**mpi, "apiVersion": "kubeflow.org/v2beta1"}).requests


def test_a_replica_type_without_a_number_has_one_pod_as_its_operator_says() -> None:
    assert gang(training("TFJob", "tfReplicaSpecs", {"Worker": None})).pods == 1


def test_a_job_names_its_queue_in_its_own_field_if_there_is_such_a_queue() -> None:
    policy = {"runPolicy": {"schedulingPolicy": {"queue": "research", "priorityClass": "build"}}}
    job = training("TFJob", "tfReplicaSpecs", {"Worker": 1}, **policy)
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "research"},
    }
    assert gang(job).queue == "default-queue"
    found = gang(job, queue)
    assert (found.queue, found.priority_class, found.preemptible) == ("research", "build", False)


def test_elastic_workers_grow_above_a_minimum() -> None:
    job = training(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        {"Master": 1, "Worker": 7},
        elasticPolicy={"minReplicas": 4},
    )
    found = gang(job)
    assert (found.min_member, found.pods) == (4, 8)
    assert shape(found) == [("master", None, 1, None), ("worker", None, 3, None)]


def test_workers_come_in_segments() -> None:
    job = training(
        "PyTorchJob", "pytorchReplicaSpecs", {"Worker": 5}, elasticPolicy={"minReplicas": 3}
    )
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {
        "annotations": {"kai.scheduler/segment-size": "2"}
    }
    found = gang(job)
    assert shape(found) == [
        ("worker", None, None, 3),
        ("worker-0", "worker", 2, None),
        ("worker-1", "worker", 2, None),
        ("worker-2", "worker", 0, None),
    ]


@pytest.mark.parametrize(
    ("spec", "least", "number"),
    [
        ({}, 1, 1),
        ({"parallelism": 4}, 1, 4),
        ({"parallelism": 4, "completions": 2}, 1, 2),
        ({"parallelism": 0}, 1, 0),
    ],
)
def test_a_job_runs_its_pods_one_by_one_unless_told(spec: Object, least: int, number: int) -> None:
    found = gang(workload("batch/v1", "Job", {**spec, "template": pods()}))
    assert (found.min_member, found.pods) == (least, number)


@pytest.mark.parametrize("key", ["kai.scheduler/min-member", "kai.scheduler/batch-min-member"])
def test_a_job_is_a_gang_when_it_says_so(key: str) -> None:
    job = workload(
        "batch/v1", "Job", {"parallelism": 4, "template": pods()}, annotations={key: "3"}
    )
    assert gang(job).min_member == 3


def test_a_cron_job_is_one_of_its_runs() -> None:
    cron = workload(
        "batch/v1",
        "CronJob",
        {"jobTemplate": {"spec": {"parallelism": 2, "template": pods()}}},
        labels={"kai.scheduler/queue": "nightly"},
    )
    found = gang(cron)
    assert (found.name, found.queue, found.pods) == ("pg-w-<id>-<uid>", "nightly", 2)


def test_pods_of_a_deployment_start_alone_or_as_a_gang() -> None:
    deployment = workload("apps/v1", "Deployment", {"replicas": 3, "template": pods()})
    assert [(g.min_member, g.pods, g.priority_class) for g in gangs(deployment)] == [
        (1, 1, "inference")
    ] * 3
    deployment["metadata"]["annotations"] = {"kai.scheduler/min-member": "2"}
    together = gang(deployment)
    assert (together.name, together.min_member, together.pods) == ("pg-w-<uid>", 2, 3)


@pytest.mark.parametrize(
    ("version", "kind", "priority"),
    [
        ("apps/v1", "StatefulSet", "train"),
        ("apps/v1", "ReplicaSet", "train"),
        ("v1", "ReplicationController", "train"),
        ("apps/v1", "DaemonSet", "train"),
        ("kubeflow.org/v1beta1", "Notebook", "build"),
        ("egx.nvidia.io/v1", "SPOTRequest", "inference"),
        ("example.com/v1", "SomethingNew", "train"),
    ],
)
def test_other_owners_have_one_group_of_minimum_one(version: str, kind: str, priority: str) -> None:
    found = gang(workload(version, kind, {"replicas": 2, "template": pods()}))
    assert (found.name, found.min_member, found.priority_class) == ("pg-w-<uid>", 1, priority)
    gangful = workload(
        version,
        kind,
        {"replicas": 2, "podManagementPolicy": "Parallel", "template": pods()},
        annotations={"kai.scheduler/min-member": "2"},
    )
    assert gang(gangful).min_member == 2
    gangful["metadata"]["annotations"]["kai.scheduler/min-member"] = "3"
    assert "kai.scheduler/min-member" in refusal(gangful)


def test_a_stateful_set_that_makes_pods_one_by_one_cannot_be_a_gang() -> None:
    notes = {"kai.scheduler/min-member": "2"}
    body = {"replicas": 2, "template": pods()}
    assert "podManagementPolicy" in refusal(
        workload("apps/v1", "StatefulSet", body, annotations=notes)
    )


def test_documents_that_run_no_pods_are_left_out() -> None:
    others = [
        workload("v1", "ConfigMap", {}),
        workload("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", {"template": {"spec": {}}}),
        {"no": "kind"},
    ]
    assert plans(*others) == []


def test_a_leader_and_its_workers_are_a_group_per_replica() -> None:
    lws = workload(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": pods()}},
    )
    found = gangs(lws)
    assert [g.name for g in found] == ["pg-w-<uid>-group-0", "pg-w-<uid>-group-1"]
    assert {(g.min_member, g.pods) for g in found} == {(3, 3)}
    assert shape(found[0]) == [("leader", None, 1, None), ("workers", None, 2, None)]


def test_a_spark_application_starts_driver_and_executors() -> None:
    app = workload(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        {
            "driver": {"cores": 1, "memory": "512m"},
            "executor": {"cores": 2, "instances": 3, "memory": "2g"},
        },
    )
    found = gang(app)
    assert (found.min_member, found.pods, found.requests["cpu"]) == (4, 4, "7")
    app["spec"]["dynamicAllocation"] = {"enabled": True, "minExecutors": 1}
    assert gang(app).min_member == 2


def test_predictors_serve_alone_unless_one_spans_nodes() -> None:
    def service(predictor: Object) -> Object:
        return workload("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor})

    alone = gangs(service({"minReplicas": 2, "containers": pods()["spec"]["containers"]}))
    assert [(g.min_member, g.priority_class) for g in alone] == [(1, "inference")] * 2
    spans = gang(
        service(
            {
                "model": {"resources": {"requests": {"nvidia.com/gpu": "8"}}},
                "workerSpec": {
                    "pipelineParallelSize": 3,
                    "containers": [{"name": "w", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
                },
            }
        )
    )
    assert (spans.min_member, spans.pods, spans.requests) == (3, 3, {"nvidia.com/gpu": "24"})


def test_each_wrapped_component_is_grouped_by_its_own_rule() -> None:
    job = workload("batch/v1", "Job", {"parallelism": 2, "template": pods()})
    torch = training("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 2})
    wrapper = workload(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        {"components": [{"template": job}, {"template": torch}]},
        labels={"kai.scheduler/queue": "team"},
    )
    assert [(g.min_member, g.queue) for g in gangs(wrapper)] == [(1, "team"), (2, "team")]


def test_a_knative_revision_is_a_gang_of_its_least_scale() -> None:
    template = pods(annotations={"autoscaling.knative.dev/min-scale": "3"})
    found = gang(workload("serving.knative.dev/v1", "Service", {"template": template}))
    assert (found.min_member, found.pods, found.priority_class) == (3, 3, "inference")


def test_grove_cliques_are_subgroups_of_each_replica() -> None:
    clique = {
        "name": "prefill",
        "spec": {"replicas": 3, "minAvailable": 2, "podSpec": pods()["spec"]},
    }
    found = gangs(
        workload(
            "grove.io/v1alpha1", "PodCliqueSet", {"replicas": 2, "template": {"cliques": [clique]}}
        )
    )
    assert [(g.min_member, g.pods) for g in found] == [(2, 3), (2, 3)]


def test_a_users_own_podgroup_is_taken_as_it_is() -> None:
    template = pods(
        annotations={"pod-group-name": "ours"}, labels={"kai.scheduler/subgroup-name": "a"}
    )
    job = workload("batch/v1", "Job", {"parallelism": 2, "template": template})
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "ours"},
        "spec": {"queue": "q", "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 2}]},
    }
    found = gang(job, group)
    assert (found.name, found.queue, found.min_member, found.pods) == ("ours", "q", 2, 2)
    assert "pod-group-name" in refusal(job)


def test_skipped_workloads_have_no_gang() -> None:
    job = workload(
        "batch/v1",
        "Job",
        {"template": pods()},
        annotations={"kai.scheduler/skip-podgrouper": "true"},
    )
    assert gangs(job) == ()

"""JobSets and TrainJobs: only what may run now is waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kai_ray.podgrouper.kinds.jobset import RULE
from kai_ray.podgrouper.workload import Workload
from tests.podgrouper.planning import Object, gang, pods, refusal, shape, workload

API = "jobset.x-k8s.io/v1alpha2"


def replicated(name: str, pods_each: int = 1, replicas: int = 1, **more: Any) -> Object:
    spec = {"parallelism": pods_each, "completions": pods_each, "template": pods()}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job_set(*jobs: Object, status: Object | None = None, **spec: Any) -> Object:
    made = workload(API, "JobSet", {"replicatedJobs": list(jobs), **spec})
    return {**made, "status": status or {}}


def progress(**ready_and_done: tuple[int, int]) -> Object:
    rows = [
        {"name": name, "ready": ready, "succeeded": done}
        for name, (ready, done) in ready_and_done.items()
    ]
    return {"replicatedJobsStatus": rows}


def minima(obj: Object) -> dict[str, int | None]:
    (group,) = RULE.groups(Workload(obj, (obj,)))
    return {s.name: s.min_sub_group for s in group.sub_groups if s.parent is None}


def test_without_an_order_all_start_together() -> None:
    found = gang(job_set(replicated("a"), replicated("b", 4, 2)))
    assert (found.min_member, found.pods) == (9, 9)
    assert shape(found)[2:] == [
        ("b", None, None, 2),
        ("b-replica-0", "b", 4, None),
        ("b-replica-1", "b", 4, None),
    ]


INITIALIZED = [
    replicated("data"),
    replicated("model"),
    replicated(
        "node",
        4,
        dependsOn=[{"name": "data", "status": "Complete"}, {"name": "model", "status": "Complete"}],
    ),
]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, {"data": 1, "model": 1, "node": 0}),
        (progress(data=(1, 0), model=(0, 1)), {"data": 1, "model": 0, "node": 0}),
        (progress(data=(0, 1), model=(0, 1)), {"data": 0, "model": 0, "node": 1}),
        (progress(data=(0, 1), model=(0, 1), node=(0, 1)), {"data": 0, "model": 0, "node": 0}),
    ],
)
def test_a_gang_is_the_current_phase(status: Object, wanted: dict[str, int]) -> None:
    assert minima(job_set(*INITIALIZED, status=status)) == wanted


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, {"leader": 1, "workers": 0}),
        (progress(leader=(1, 0)), {"leader": 1, "workers": 1}),
        (progress(leader=(0, 1)), {"leader": 0, "workers": 1}),
    ],
)
def test_in_order_the_next_comes_when_the_last_is_ready(
    status: Object, wanted: dict[str, int]
) -> None:
    policy = {"startupPolicyOrder": "InOrder"}
    found = job_set(
        replicated("leader"), replicated("workers", 3), startupPolicy=policy, status=status
    )
    assert minima(found) == wanted


class Jobs:
    """A reader that knows how far the set's Jobs are."""

    def __init__(self, **succeeded: int) -> None:
        self._succeeded = succeeded

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        done = self._succeeded.get(name.replace("-", "_"))
        if kind != "Job" or done is None:
            return None
        return {"spec": {"completions": 5}, "status": {"succeeded": done}}

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        return ()

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Object]:
        return ()


def test_minima_follow_the_work_that_is_left() -> None:
    job = replicated("a", 4)
    job["template"]["spec"]["completions"] = 5
    obj = job_set(job, status=progress(a=(1, 0)))

    def floor(done: int) -> int | None:
        w = Workload(obj, (obj,), reader=Jobs(w_a_0=done))
        (group,) = RULE.groups(w)
        return group.sub_groups[1].min_member

    assert [floor(n) for n in (0, 1, 2, 4, 5)] == [4, 4, 3, 1, 0]


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([], "spec.replicatedJobs"),
        ([replicated("a", dependsOn=[{"name": "b", "status": "Ready"}])], "dependsOn"),
        (
            [
                replicated("a", dependsOn=[{"name": "b", "status": "Ready"}]),
                replicated("b", dependsOn=[{"name": "a", "status": "Ready"}]),
            ],
            "dependsOn",
        ),
        ([replicated("a", dependsOn=[{"name": "a", "status": "Later"}])], "dependsOn[0].status"),
        ([replicated("a"), replicated("a")], "subGroups[a]"),
        ([replicated("a", 1, 10**6)], "spec.replicatedJobs"),
    ],
)
def test_orders_that_cannot_be_are_refused(jobs: list[Object], field: str) -> None:
    assert field in refusal(job_set(*jobs))


def runtime(**policy: Any) -> Object:
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node = {
        "name": "node",
        "template": {
            "metadata": step,
            "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}},
        },
        "dependsOn": [{"name": "data", "status": "Complete"}],
    }
    made = workload(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        {
            "mlPolicy": {"numNodes": 1, **policy},
            "template": {"spec": {"replicatedJobs": [replicated("data"), node]}},
        },
    )
    made["metadata"]["name"] = "torch"
    return made


def train_job(**trainer: Any) -> Object:
    return workload(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        {"runtimeRef": {"name": "torch"}, "trainer": trainer},
        labels={"kai.scheduler/queue": "team", "priorityClassName": "inference"},
    )


def test_a_train_job_is_the_job_set_of_its_runtime() -> None:
    found = gang(
        train_job(numNodes=3, resourcesPerNode={"requests": {"nvidia.com/gpu": 2}}), runtime()
    )
    assert (found.min_member, found.pods) == (1, 4)
    assert found.requests == {"cpu": "1", "nvidia.com/gpu": "6"}
    assert (found.queue, found.priority_class) == ("team", "inference")


def test_a_launcher_that_is_a_node_counts_as_one() -> None:
    found = gang(train_job(numNodes=4), runtime(mpi={"runLauncherAsNode": True}))
    assert found.pods == 1 + 3


def test_a_runtime_that_nobody_gave_is_named() -> None:
    assert "ClusterTrainingRuntime 'torch' is not known" in refusal(train_job())

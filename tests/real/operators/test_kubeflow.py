"""Kubeflow's operators, JobSet, LeaderWorkerSet: whence queue and priority come; how they end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster.port import ApiError, Object
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import ADMISSION, TEMPLATE, lone_place
from tests.real.operators.seen import all_bound, node_of
from tests.real.operators.workloads import Style

pytestmark = pytest.mark.real
ENDS: dict[str, Callable[[str], list[Object]]] = {
    "PyTorchJob": lambda n: [w.training_job("PyTorchJob", n, Style(), {"Master": 1, "Worker": 1})],
    "MPIJob": lambda n: [
        w.training_job(
            "MPIJob",
            n,
            Style(),
            {"Launcher": 1, "Worker": 2},
            runPolicy={"cleanPodPolicy": "Running"},
        )
    ],
    "TrainJob": lambda n: w.train_job(n, Style(), 2),
    "JobSet": lambda n: [w.job_set(n, Style())],
}


def test_a_train_job_gives_queue_and_priority_to_its_pods_gang(fleet: Fleet) -> None:
    """TrainJob -> JobSet -> Job -> Pod: no label of the first reaches the last."""
    made = w.train_job("asked", Style(), 2, **{L.PRIORITY_CLASS: "inference"})
    fleet.submit(ADMISSION, *made)
    pods = fleet.seen.wait(ADMISSION, "asked", all_bound(2))
    assert len(pods) == 2 and all(node_of(pod) for pod in pods)
    assert all(L.QUEUE not in pod["metadata"]["labels"] for pod in pods)
    (group,) = fleet.pod_groups(ADMISSION, "asked")
    assert (group["spec"]["queue"], group["spec"]["priorityClassName"]) == (w.QUEUE, "inference")


@pytest.mark.parametrize("kind", ENDS)
def test_a_job_succeeds_and_its_group_is_finished(fleet: Fleet, kind: str) -> None:
    name = f"ends-{kind.lower()}"
    made = ENDS[kind](name)
    fleet.submit(ADMISSION, *made)
    done = fleet.wait(ADMISSION, made[-1], lambda job: ended(job) != "")
    assert ended(done) in ("Succeeded", "Complete", "Completed")
    assert fleet.ended_group(ADMISSION, name)["status"]["phase"] == "Finished"


def ended(job: Object) -> str:
    words = ("Succeeded", "Complete", "Completed", "Failed")
    conditions = job["status"].get("conditions") or ()
    return next((c["type"] for c in conditions if c["type"] in words and c["status"] == "True"), "")


def test_an_elastic_job_starts_with_its_least_and_grows(fleet: Fleet) -> None:
    """Where there is room for two of its three workers, two start."""
    fleet.submit(TEMPLATE, w.elastic_job("stretches", Style(True, 3, lone_place()), 2, 3))
    pods = fleet.seen.wait(TEMPLATE, "stretches", lambda ps: sum(map(bool, map(node_of, ps))) == 2)
    assert sorted(bool(node_of(pod)) for pod in pods) == [False, True, True]
    pods = fleet.seen.wait(TEMPLATE, "stretches", all_bound(3))
    assert len(pods) == 3 and all(node_of(pod) for pod in pods)


def test_each_group_of_a_leader_worker_set_is_a_gang(fleet: Fleet) -> None:
    fleet.submit(ADMISSION, w.leader_worker_set("twice", Style(), 2, 2))
    pods = fleet.seen.wait(ADMISSION, "twice", all_bound(4))
    assert len(pods) == 4
    gangs = {g["metadata"]["name"]: g["spec"] for g in fleet.pod_groups(ADMISSION, "twice")}
    assert [name.rpartition("-")[2] for name in sorted(gangs)] == ["0", "1"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (w.training_job("PyTorchJob", "bad", Style(), {"Boss": 1}), "Boss"),
        (w.train_job("bad", Style(), 1)[1], "TrainingRuntime"),
    ],
    ids=["PyTorchJob", "TrainJob"],
)
def test_the_operators_own_webhooks_are_asked(fleet: Fleet, made: Object, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        fleet.submit(TEMPLATE, made)
    assert "admission webhook" in refused.value.message

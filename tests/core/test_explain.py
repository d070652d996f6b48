"""Why a gang waits, in the words a user reads."""

from __future__ import annotations

import pytest

from kai_ray.scheduler import Reason
from kai_ray.scheduler.explain import amount
from tests.core.world import GIB, Job, Node, Pod, Queue, World, X, running

NODES = [Node("gpu-1", gpus=8), Node("gpu-2", gpus=8), Node("gpu-3", gpus=8, cordoned=True)]


def test_gpus_are_named_with_what_is_free_and_how_near_the_nearest_node_is() -> None:
    busy = Job("busy", [running("gpu-1", gpus=5), running("gpu-2", gpus=2)])
    out = World(NODES, [busy, Job("big", [Pod(gpus=8)] * 2, minimum=2)]).decide()
    assert out.waits["big"].reason is Reason.INSUFFICIENT_GPU
    assert out.headline("big") == (
        "Waiting for GPUs: 16 needed at once, 9 free; nearest node gpu-2 lacks 2 GPUs"
    )
    assert out.details("big") == (
        "1 node cordoned",
        "2 nodes without enough free GPUs",
    )


def test_a_gang_that_fits_in_part_says_how_far() -> None:
    out = World(NODES, [Job("wide", [Pod(gpus=8)] * 3, minimum=3)]).decide()
    assert out.headline("wide") == (
        "Waiting for GPUs: 24 needed at once, 16 free; room for 2 of 3 pods"
    )


def test_a_limit_is_told_with_its_figures() -> None:
    queues = [Queue("a", gpu_limit=8)]
    jobs = [Job("busy", [running("gpu-1", gpus=8)], queue="a"), Job("j", [Pod()] * 4, 4, "a")]
    out = World(NODES, jobs, queues).decide()
    assert out.headline("j") == (
        "Waiting for quota: queue a is at its limit of 8 GPUs (8 used, 4 asked)"
    )


def test_a_limit_that_is_not_reached_yet_is_told_so() -> None:
    queues = [Queue("a", gpu_limit=3)]
    out = World(NODES, [Job("j", [Pod()] * 4, 4, "a")], queues).decide()
    assert out.headline("j") == (
        "Waiting for quota: queue a would pass its limit of 3 GPUs (0 used, 4 asked)"
    )


def test_a_quota_is_told_for_what_cannot_be_preempted() -> None:
    queues = [Queue("a", gpu_quota=1)]
    job = Job("j", [Pod(gpus=2)], queue="a", preemptible=False, priority=100)
    assert World(NODES, [job], queues).decide().headline("j") == (
        "Waiting for quota: non-preemptible pods of queue a must stay within its quota of 1 GPU "
        "(0 used, 2 asked)"
    )


def test_a_node_without_any_gpu_is_not_the_nearest_where_others_have_some() -> None:
    nodes = [Node("cpu-1", gpus=0), Node("gpu-1", gpus=8)]
    busy = Job("busy", [running("gpu-1", gpus=8)])
    out = World(nodes, [busy, Job("big", [Pod(gpus=8)])]).decide()
    assert "nearest node gpu-1 lacks 8 GPUs" in out.headline("big")
    out = World([Node("cpu-1", gpus=0)], [Job("big", [Pod(gpus=8)])]).decide()
    assert "nearest node cpu-1 lacks 8 GPUs" in out.headline("big")


def test_what_is_still_being_released_is_not_called_free() -> None:
    leaving = Job("leaving", [Pod(gpus=8, node="gpu-1", state=X)])
    busy = Job("busy", [running("gpu-2", gpus=8)])
    out = World(NODES, [leaving, busy, Job("big", [Pod(gpus=8)] * 2, minimum=2)]).decide()
    assert "16 needed at once, 0 free" in out.headline("big")


def test_who_went_first_is_named_where_there_was_room() -> None:
    jobs = [Job("first", [Pod(gpus=8)] * 2, 2, priority=90), Job("late", [Pod(gpus=8)])]
    out = World(NODES, jobs).decide()
    wait = out.waits["late"]
    assert wait.queue_cause is not None
    assert wait.queue_cause.reason is Reason.BEHIND_OTHERS
    assert "went first: first" in out.details("late")
    assert "queue q uses 16 GPUs of a fair share of 16 GPUs" in out.details("late")


def test_nobody_is_blamed_where_there_was_no_room_to_begin_with() -> None:
    jobs = [Job("first", [Pod(gpus=1)]), Job("huge", [Pod(gpus=8)] * 3, 3)]
    assert World(NODES, jobs).decide().waits["huge"].behind == ()


@pytest.mark.parametrize(
    ("job", "headline"),
    [
        (
            Job("j", [Pod(gpus=9)]),
            "Can never start: a pod asks for more than any node that suits it has; "
            "nearest node gpu-1 lacks 1 GPU",
        ),
        (
            Job("j", [Pod(memory=600 * GIB)]),
            "Can never start: a pod asks for more than any node that suits it has; "
            "nearest node gpu-1 lacks 88 GiB memory",
        ),
        (Job("j", [Pod()], 2), "Waiting for pods: 1 of the 2 that its minimum needs exist"),
        (Job("j", queue="none"), "Queue none does not exist: create it or name another"),
        (
            Job("j", [Pod(needs=((),))]),
            "Waiting for a node: 1 pod; 2 nodes outside its node selector or affinity",
        ),
        (
            Job("j", [Pod(blocked=Reason.VOLUME_CLAIM_NOT_FOUND)]),
            "Waiting for a volume claim that is not there or not bound",
        ),
    ],
)
def test_other_causes_have_their_own_words(job: Job, headline: str) -> None:
    assert World(NODES, [job]).decide().headline("j") == headline


def test_a_gang_in_line_says_that_its_room_is_being_released() -> None:
    jobs = [Job("old", [Pod(gpus=8, state=X, node="gpu-1")]), Job("new", [Pod(gpus=8)])]
    assert World(NODES[:1], jobs).decide().headline("new") == (
        "Waiting for room that is being released: 1 pod next in line"
    )


def test_no_node_at_all() -> None:
    assert World([], [Job("j")]).decide().headline("j") == (
        "Waiting for GPUs: 1 needed at once, 0 free; room for 0 of 1 pod"
    )


def test_amounts_are_written_as_people_write_them() -> None:
    names = ("cpu", "memory", "gpu", "pods", "example.com/nic")
    said = [amount(r, v, names) for r, v in ((0, 1500), (1, GIB), (2, 1), (3, 2), (4, 3))]
    assert said == ["1.5 CPUs", "1 GiB memory", "1 GPU", "2 pod slots", "3 example.com/nic"]

"""A pipeline's day: submit, wait, see why, react."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import kai_ray
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Unavailable
from kai_ray.sdk.client import Client
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import EXAMPLES

QUEUES = ("vision", "language", "search", "ads")


def batch(name: str, **fields: object) -> kai_ray.BatchJob:
    return kai_ray.BatchJob(name, image="busybox", **({"gpus": 1} | fields))  # type: ignore[arg-type]


def long_job(name: str, gpus: int = 8, pods: int = 1, minutes: int = 60) -> dict:
    obj = batch(name, gpus=gpus, pods=pods).manifest()
    obj["metadata"].setdefault("annotations", {})["kai.scheduler/sim-run-time"] = f"{minutes}m"
    return obj


@pytest.mark.parametrize("name", ["job", "pytorchjob", "rayjob", "trainjob", "mpijob"])
def test_each_kind_of_the_examples_is_submitted_and_ends(kai: Client, name: str) -> None:
    job = kai.submit(EXAMPLES / "workloads" / f"{name}.yaml", queue="vision")
    assert job.wait(timeout=600).status == "Succeeded"
    assert job.status.ended


@pytest.mark.parametrize("name", ["raycluster", "rayservice"])
def test_what_never_ends_is_waited_for_until_it_runs(kai: Client, name: str) -> None:
    job = kai.submit(EXAMPLES / "workloads" / f"{name}.yaml")
    assert job.wait(timeout=600).status == "Running"
    job.delete()
    assert job.status == "Deleted"
    with pytest.raises(kai_ray.JobDeleted):
        job.explain()


def test_a_file_may_bring_what_the_job_needs_beside_it(kai: Client) -> None:
    job = kai.submit(EXAMPLES / "workloads" / "rayjob.yaml")
    assert (job.kind, job.name) == ("RayJob", "tune")
    assert kai.port.get(R.CONFIG_MAP, "tune-script", "default")["data"]


def test_two_jobs_are_no_job(kai: Client) -> None:
    both = [batch("a"), batch("b")]
    with pytest.raises(kai_ray.InvalidManifest, match="submit_all"):
        kai.submit(both, dry_run="client")
    assert [job.name for job in kai.submit_all(both, queue="vision")] == ["a", "b"]


def test_a_job_that_waits_says_for_what_and_what_would_help(kai: Client) -> None:
    kai.queue("vision").set(gpu=0, gpu_limit=2)
    job = kai.submit(batch("greedy", gpus=4), queue="vision").wait(until="decided")
    assert (job.status, job.reason, job.position) == ("Waiting", "OverLimit", 1)
    why = job.explain()
    assert why.reason == "OverLimit"
    assert "kai queue set vision --gpu-limit" in why.help
    kai.queue("vision").set(gpu_limit="unlimited")
    assert job.wait(timeout=60).status == "Succeeded"


def test_time_runs_out_with_the_reason_and_the_job_goes_on(kai: Client) -> None:
    kai.queue("vision").pause()
    job = kai.submit(batch("later"), queue="vision")
    with pytest.raises(kai_ray.WaitTimeout, match="QueuePaused") as caught:
        job.wait(timeout=timedelta(seconds=30))
    assert isinstance(caught.value, TimeoutError), "what programs catch for any time-out"
    kai.queue("vision").resume()
    assert job.wait(timeout=60).status == "Succeeded"


def test_a_failure_is_raised_in_the_operators_words(kai: Client) -> None:
    manifest = batch("broken").manifest()
    manifest["metadata"]["annotations"] = {"kai.scheduler/sim-exit-code": "3"}
    job = kai.submit(manifest, queue="vision")
    with pytest.raises(kai_ray.JobFailed, match="job/broken has failed") as caught:
        job.wait(timeout=600)
    assert caught.value.jobs == ("broken",)
    assert caught.value.why, "its operator has said why"
    assert job.wait(failing=False).status == "Failed"


def test_a_job_of_the_same_name_is_another_job(kai: Client) -> None:
    first = kai.submit(long_job("twice"), queue="vision").wait(until="started")
    first.delete()
    second = kai.submit(long_job("twice"), queue="vision").wait(until="started")
    assert (first.status, second.status) == ("Deleted", "Running")
    with pytest.raises(kai_ray.JobDeleted, match="replaced"):
        first.wait()
    first.delete()
    assert second.status == "Running", "deleting the first does not touch the second"


def test_suspend_gives_the_gpus_back_and_resume_takes_its_place(kai: Client) -> None:
    job = kai.submit(long_job("night"), queue="vision").wait(until="started")
    assert job.suspend().status == "Suspended"
    other = kai.submit(batch("day", gpus=8, pods=4), queue="vision")
    assert other.wait(timeout=60).status == "Succeeded"
    assert job.resume().wait(until="started").status == "Running"


def test_a_rayjob_that_its_operator_would_fail_is_not_suspended(kai: Client) -> None:
    manifest = kai_ray.RayJob("fragile", "python x.py").manifest()
    del manifest["spec"]["shutdownAfterJobFinishes"]
    with pytest.raises(kai_ray.CannotSuspend, match="shutdownAfterJobFinishes"):
        kai.submit(manifest, queue="vision").suspend()


def test_every_change_is_told_once(kai: Client) -> None:
    kai.queue("vision").pause()
    job = kai.submit(batch("watched"), queue="vision").wait(until="decided")
    seen = []
    for change in job.changes(timeout=120):
        seen.append((change.status.value, change.reason))
        if change.reason == "QueuePaused":
            kai.queue("vision").resume()
    assert seen[0] == ("Waiting", "QueuePaused")
    assert seen[-1] == ("Succeeded", "")
    assert len(seen) == len(set(seen))


def test_an_evicted_job_is_seen_to_leave_and_come_back(kai: Client) -> None:
    borrower = kai.submit(long_job("borrower", pods=4, minutes=2), queue="vision").wait(
        until="started"
    )
    owner = kai.submit(batch("owner", gpus=8, pods=2), queue="search")
    statuses = [change.status.value for change in borrower.changes(timeout=900)]
    assert "Evicted" in statuses
    assert statuses[-1] == "Succeeded"
    assert owner.status == "Succeeded"
    assert any(e.reason in ("Reclaimed", "Evicted") for e in borrower.events())


# ---------------------------------------------------------------------- many at once


def test_many_jobs_are_waited_for_together(kai: Client) -> None:
    jobs = kai.submit_all([batch(f"part-{n}") for n in range(15)], queue="vision")
    assert {job.status.value for job in kai.wait(jobs, timeout=600)} == {"Succeeded"}
    assert "part-14" in repr(jobs)
    assert jobs._repr_html_().count("<tr>") == 16


def test_each_is_handed_over_as_it_ends(kai: Client) -> None:
    quick = kai.submit(batch("quick"), queue="vision")
    slow = kai.submit(long_job("slow", gpus=1, minutes=5), queue="vision")
    assert [job.name for job in kai.as_ended([slow, quick], timeout=900)] == ["quick", "slow"]


def test_a_hundred_waiters_read_the_namespace_once(kai: Client) -> None:
    reads = 0
    listed = kai.port.list

    def counting(*args: object, **kwargs: object) -> object:
        nonlocal reads
        reads += args[0] == R.POD
        return listed(*args, **kwargs)  # type: ignore[arg-type]

    jobs = kai.submit_all([batch(f"p-{n}") for n in range(100)], queue="vision")
    kai.pace.fresh_s = 0.2
    kai.port.list = counting  # type: ignore[method-assign]
    try:
        for job in jobs:
            assert job.status
    finally:
        kai.port.list = listed  # type: ignore[method-assign]
    assert reads == 1


def test_async_jobs_run_side_by_side_and_waiting_can_be_given_up(cluster: EmbeddedCluster) -> None:
    async def story() -> list[str]:
        async with kai_ray.aio.connect(cluster) as kai:
            one = await kai.submit(batch("one"), queue="vision")
            two = await kai.submit(batch("two"), queue="search")
            endless = await kai.submit(kai_ray.RayCluster("endless"), queue="ads")
            waiter = asyncio.create_task(kai.wait([endless], until="ended"))
            await asyncio.gather(one.wait(), two.wait())
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            return [str(await job.status()) for job in (one, two, endless)]

    assert asyncio.run(story()) == ["Succeeded", "Succeeded", "Running"]


# ---------------------------------------------------------------------- when it starts


def full_up(kai: Client, deadlines: tuple[int | None, ...]) -> None:
    """A node for each queue, from which nobody has to leave before its deadline."""
    jobs = []
    for n, (queue, seconds) in enumerate(zip(QUEUES, deadlines, strict=True)):
        manifest = long_job(f"block-{n}", gpus=8, minutes=600)
        if seconds:
            manifest["spec"]["activeDeadlineSeconds"] = seconds
        jobs.append(kai.submit(manifest, queue=queue, preemptible=False))
    kai.wait(jobs, until="started")


def test_the_eta_is_the_deadline_of_what_is_in_the_way(kai: Client) -> None:
    full_up(kai, (720, 90, 180, 360))
    job = kai.submit(long_job("two-nodes", gpus=8, pods=2), queue="ads").wait(until="decided")
    eta = job.eta
    assert eta is not None
    begun = kai.port.get(R.JOB, "block-2", "default")["status"]["startTime"]
    assert (eta.at.isoformat()[:19] + "Z") > begun
    assert "block-2" in eta.why, "after the second of four has gone, two nodes are free"
    job.wait(timeout=300, until="started")
    assert kai.pace.now() <= eta.at.timestamp() + 60


def test_nobody_knows_when_jobs_without_a_deadline_end(kai: Client) -> None:
    full_up(kai, (None,) * 4)
    job = kai.submit(long_job("next"), queue="ads").wait(until="decided")
    assert job.status == "Waiting"
    assert job.eta is None
    assert kai.job("block-0").eta is None, "it has started"


# ---------------------------------------------------------------------- errors


def test_a_name_that_two_kinds_share_is_asked_about(kai: Client) -> None:
    kai.submit(long_job("same"), queue="vision").wait(until="decided")
    kai.submit(kai_ray.RayCluster("same"), queue="vision").wait(until="decided")
    with pytest.raises(kai_ray.Ambiguous, match="raycluster/same"):
        kai.job("same")
    assert kai.job("raycluster/same").kind == "RayCluster"


def test_a_server_that_does_not_answer_is_a_typed_error(kai: Client) -> None:
    class Down:
        def get(self, *args: object, **kwargs: object) -> None:
            raise Unavailable("connection refused")

        batch = list = get

    down = kai_ray.connect(Down())  # type: ignore[arg-type]
    for call in (lambda: down.job("x"), lambda: down.jobs(), lambda: down.queue("q")):
        with pytest.raises(kai_ray.Unreachable, match="kai up"):
            call()


def test_a_server_that_restarts_does_not_end_the_waiting(kai: Client) -> None:
    job = kai.submit(long_job("steady", minutes=2), queue="vision")
    away_until = kai.pace.now() + 100
    get = kai.port.get

    def flaky(*args: object, **kwargs: object) -> object:
        if kai.pace.now() < away_until:
            raise Unavailable("connection refused")
        return get(*args, **kwargs)  # type: ignore[arg-type]

    kai.port.get = flaky  # type: ignore[method-assign]
    try:
        assert job.wait(timeout=600).status == "Succeeded"
        away_until = kai.pace.now() + 10_000
        with pytest.raises(kai_ray.Unreachable):
            job.wait()
    finally:
        kai.port.get = get  # type: ignore[method-assign]


def test_a_job_that_deletes_itself_is_not_a_riddle(kai: Client) -> None:
    manifest = batch("fleeting").manifest()
    manifest["spec"]["ttlSecondsAfterFinished"] = 0
    job = kai.submit(manifest, queue="vision").wait(until="started")
    job.client.port.delete(R.JOB, "fleeting", "default")
    with pytest.raises(kai_ray.JobDeleted, match="ttlSecondsAfterFinished is 0"):
        job.wait(timeout=60)


def test_a_timeout_is_a_number_of_seconds(kai: Client) -> None:
    job = kai.submit(batch("quick"), queue="vision")
    with pytest.raises(TypeError, match="timeout='started' is no number"):
        job.wait("started")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="until='running': write one of"):
        job.wait(until="running")  # type: ignore[arg-type]
    assert job.wait(60).status == "Succeeded"


def test_a_namespace_that_is_missing_is_named_with_the_command_that_makes_it(kai: Client) -> None:
    with pytest.raises(kai_ray.NotFound, match="kubectl create namespace nowhere"):
        kai.submit(batch("lost"), namespace="nowhere")


def test_what_the_server_refuses_names_the_field(kai: Client) -> None:
    manifest = kai_ray.RayJob("bad", "x").manifest()
    manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = "two"
    with pytest.raises(kai_ray.InvalidManifest, match="replicas"):
        kai.submit(manifest, queue="vision")


# ---------------------------------------------------------------------- queues


def test_a_queue_is_made_changed_and_deleted_only_when_nobody_needs_it(kai: Client) -> None:
    robots = kai.create_queue("robots", parent="research", gpu=2, memory="64Gi", priority=120)
    assert (robots.gpu.quota, robots.parent, robots.priority) == (2.0, "research", 120)
    assert round(robots.memory.quota) == 68719
    job = kai.submit(long_job("arm", gpus=1), queue="robots").wait(until="started")
    assert [j.name for j in robots.jobs()] == ["arm"]
    with pytest.raises(kai_ray.Conflict, match="1 jobs"):
        robots.delete()
    with pytest.raises(kai_ray.Conflict, match="queues below it"):
        kai.queue("research").delete()
    job.delete()
    robots.delete()
    with pytest.raises(kai_ray.NotFound):
        kai.queue("robots")


def test_a_drained_queue_lets_what_runs_go_on_until_the_deadline(kai: Client) -> None:
    job = kai.submit(long_job("runner"), queue="vision").wait(until="started")
    kai.queue("vision").drain(timedelta(minutes=1))
    kai.pace.sleep(30)
    assert job.status == "Running"
    kai.pace.sleep(60)
    assert job.status == "Evicted"
    assert kai.queue("vision").resume().state == "Active"
    assert job.wait(60, until="started").status == "Running"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpu": -3}, "gpu=-3"),
        ({"gpu": "many"}, "gpu='many' is no amount"),
        ({"memory": "8 apples"}, "memory="),
        ({"cpu": True}, "cpu=True is no amount"),
        ({}, "nothing to change"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(kai: Client, options: dict, says: str) -> None:
    with pytest.raises(kai_ray.InvalidManifest, match=says):
        kai.queue("vision").set(**options)


def test_an_unknown_option_is_no_option(kai: Client) -> None:
    with pytest.raises(TypeError, match="do you mean 'queue'"):
        kai.submit(batch("x"), que="vision")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="gpus"):
        kai.create_queue("x", gpus=3)  # type: ignore[call-arg]

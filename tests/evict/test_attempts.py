"""RayJobs that cannot be suspended: they go last, and their next attempt begins by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kai_ray.admission.workloads import WorkloadAdmission
from kai_ray.api import labels as L
from kai_ray.cli.root import root
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Forbidden, Object
from kai_ray.podgrouper.kinds.ray_job import LAST_RESORT
from tests.evict.world import EvictWorld, ray_spec

KEPT = {"shutdownAfterJobFinishes": False}


def ray_job(world: EvictWorld, name: str = "ray") -> Object:
    return world.store.get(R.RAY_JOB, name, "default")


def status(world: EvictWorld, name: str = "ray") -> dict[str, Any]:
    return ray_job(world, name).get("status") or {}


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
@pytest.mark.parametrize("backoff_limit", [0, 1])
def test_its_attempt_ends_with_its_cluster_and_another_begins(
    mode: str, backoff_limit: int
) -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.ray_job(
            "ray", "b", 4, 2, spec={**KEPT, "submissionMode": mode, "backoffLimit": backoff_limit}
        )
        assert world.until(lambda: status(world).get("jobDeploymentStatus") == "Running", 60)
        before = status(world)["rayClusterName"]
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "120s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert [(n, r) for n, r, _ in world.evictions("RayJob")] == [("ray", "Reclaimed")]
        names = [c["metadata"]["name"] for c in world.store.list(R.RAY_CLUSTER, "default").items]
        assert before not in names, "nothing of the attempt is left"

        def again() -> bool:
            found = status(world)
            return found.get("jobDeploymentStatus") == "Running" and len(world.running("ray")) >= 5

        assert world.until(again, 300)
        assert status(world)["rayClusterName"] != before
        assert not status(world).get("failed"), "an eviction is no failure"
        assert L.ATTEMPT_ENDED not in ray_job(world)["metadata"]["annotations"]
        assert world.until(lambda: status(world).get("jobStatus") == "SUCCEEDED", 8000)


def test_it_goes_after_all_that_can_be_suspended() -> None:
    """The kept one is newer and would go first by its age."""
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.ray_job("ends", "b", 4, 1)
        assert world.until(lambda: len(world.running("ends")) >= 5, 60)
        world.ray_job("kept", "b", 4, 1, spec=KEPT)
        assert world.until(lambda: len(world.running("kept")) >= 5, 60)
        world.job("first", "a", 4)
        assert world.until(lambda: len(world.running("first")) == 4, 60)
        assert [n for n, _, _ in world.evictions("RayJob")] == ["ends"]
        world.job("second", "a", 4)
        assert world.until(lambda: len(world.running("second")) == 4, 60)
        assert [n for n, _, _ in world.evictions("RayJob")] == ["ends", "kept"]


def test_it_keeps_its_place_in_the_queue() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.ray_job("ray", "b", 4, 2, spec=KEPT)
        assert world.until(lambda: len(world.running("ray")) >= 5, 60)
        came = ray_job(world)["metadata"]["creationTimestamp"]
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "600s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        world.run(30)
        since = world.annotations("-ray-")[L.QUEUED_SINCE]
        assert since <= world.group("own")["metadata"]["creationTimestamp"]
        assert since >= came


def test_where_the_status_is_not_ours_to_write_the_backoff_limit_decides() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        before = world.store.patch

        def patch(resource: Any, name: str, body: Any, *args: Any, **more: Any) -> Object:
            asked = more.get("subresource") == "status" and resource == R.RAY_JOB
            if asked and (body.get("status") or {}).get("jobDeploymentStatus") == "Retrying":
                raise Forbidden("rayjobs/status is not yours")
            return before(resource, name, body, *args, **more)

        world.store.patch = patch  # type: ignore[method-assign]
        spec = {**KEPT, "submissionMode": "SidecarMode", "backoffLimit": 1}
        world.ray_job("ray", "b", 4, 2, spec=spec)
        assert world.until(lambda: status(world).get("jobDeploymentStatus") == "Running", 60)
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "120s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert any(reason == "RetryRefused" for reason, _ in world.events("ray"))
        assert world.until(lambda: len(world.running("ray")) >= 5, 600)


def test_a_restart_between_any_two_writes_ends_the_same(tmp_path: Path) -> None:
    for cut in range(1, 5):
        folder = tmp_path / str(cut)
        with EvictWorld("1x8", folder) as world:
            world.queues(a=8, b=0)
            world.ray_job("ray", "b", 4, 2, spec=KEPT)
            assert world.until(lambda: status(world).get("jobDeploymentStatus") == "Running", 60)
            now = world.cluster.clock.now()
            _crash_at(world, cut)
            world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "120s"})
            with pytest.raises(_Crash):
                world.run(60)
            now = world.cluster.clock.now()
        with EvictWorld("1x8", folder, now) as world:
            assert world.until(lambda: len(world.running("own")) == 4, 120), cut
            assert world.until(lambda: len(world.running("ray")) >= 5, 400), cut
            assert not status(world).get("failed"), cut
            assert L.ATTEMPT_ENDED not in ray_job(world)["metadata"]["annotations"], cut


def test_a_cluster_that_others_jobs_run_in_is_of_last_resort_and_its_jobs_begin_again() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.create(R.RAY_CLUSTER, "host", ray_spec(4, 1), "b")
        world.create(R.RAY_CLUSTER, "other", ray_spec(4, 1), "b")
        assert world.until(lambda: len(world.running()) == 10, 60)
        spec: Object = {"entrypoint": "python run.py", "clusterSelector": {L.RAY_CLUSTER: "host"}}
        world.create(R.RAY_JOB, "guest", {**spec, "submissionMode": "HTTPMode"}, "b")
        assert world.until(
            lambda: status(world, "guest").get("jobDeploymentStatus") == "Running", 60
        )
        first = status(world, "guest")["jobId"]
        world.job("one", "a", 4)
        assert world.until(lambda: len(world.running("one")) == 4, 60)
        assert [n for n, _, _ in world.evictions("RayCluster")] == ["other"]
        world.job("two", "a", 4, annotations={L.RUN_TIME: "120s"})
        assert world.until(lambda: len(world.running("two")) == 4, 60)
        assert [n for n, _, _ in world.evictions("RayCluster")] == ["host", "other"]
        assert world.until(
            lambda: (
                len(world.running("host")) == 5
                and status(world, "guest").get("jobDeploymentStatus") == "Running"
            ),
            400,
        )
        assert status(world, "guest")["jobId"] != first, "it was submitted anew"


@pytest.mark.parametrize(("kept", "said"), [(True, False), (False, True)])
def test_that_it_is_of_last_resort_is_said_beforehand(
    tmp_path: Path, kept: bool, said: bool
) -> None:
    spec = {
        "entrypoint": "python run.py",
        "shutdownAfterJobFinishes": kept,
        "rayClusterSpec": ray_spec(1),
    }
    manifest: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "ray", "namespace": "default", "labels": {L.QUEUE: "a"}},
        "spec": spec,
    }
    with EvictWorld("1x8") as world:
        world.queues(a=8)
        warnings = list(WorkloadAdmission().warnings(manifest, world.store))
        assert (LAST_RESORT in warnings) is said
        world.store.create(R.RAY_JOB, manifest)
        world.run(5)
        told = [text for reason, text in world.events("ray") if reason == "PodGroupNote"]
        assert bool(told) is said
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    assert (LAST_RESORT in CliRunner().invoke(root, ["plan", str(file)]).output) is said


class _Crash(BaseException):
    """Not an Exception: nothing on the way catches it."""


def _crash_at(world: EvictWorld, write: int) -> None:
    """The process ends at the nth write that concerns the attempt."""
    left = [write]

    def counting(call: Any) -> Any:
        def made(resource: Any, *args: Any, **more: Any) -> Any:
            if resource in (R.RAY_JOB, R.RAY_CLUSTER) and _ours(resource, args, more):
                left[0] -= 1
                if left[0] == 0:
                    raise _Crash
            return call(resource, *args, **more)

        return made

    world.store.patch = counting(world.store.patch)  # type: ignore[method-assign]
    world.store.delete = counting(world.store.delete)  # type: ignore[method-assign]


def _ours(resource: Any, args: Any, more: Any) -> bool:
    if resource == R.RAY_CLUSTER:
        return "uid" in more
    return len(args) > 1 and isinstance(args[1], dict)

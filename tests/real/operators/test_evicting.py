"""Evicting Ray workloads of the real KubeRay: none is broken, and each begins again by itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Object
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import TEMPLATE
from tests.real.operators.workloads import Style

pytestmark = pytest.mark.real

#: A node that only the workloads of one test may use.
PLACE = "evicting"
GPUS = 4


class Diary:
    """What a RayJob's status went through, from its watch."""

    def __init__(self, fleet: Fleet, namespace: str, name: str) -> None:
        self.states: list[dict[str, Any]] = []
        self._fleet, self._namespace, self._name = fleet, namespace, name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def words(self) -> list[str]:
        """Its deployment states, each once as long as it lasts."""
        found: list[str] = []
        for state in self.states:
            word = state.get("jobDeploymentStatus") or "New"
            if found[-1:] != [word]:
                found.append(word)
        return found

    def stop(self) -> None:
        """Keeps what was seen beside the logs of the plane's programs."""
        self._ended.set()
        self._thread.join(5)
        lines = [json.dumps(s, sort_keys=True) for s in self.states]
        path = self._fleet.plane.programs.logs / f"rayjob-{self._name}-states.log"
        path.write_text("\n".join(lines) + "\n")

    def _watch(self) -> None:
        port = self._fleet.plane.port
        while not self._ended.is_set():
            try:
                page = port.list(R.RAY_JOB, self._namespace, fields=f"metadata.name={self._name}")
                for job in page.items:
                    self._keep(job)
                watch = port.watch(
                    R.RAY_JOB,
                    self._namespace,
                    resource_version=page.resource_version,
                    fields=f"metadata.name={self._name}",
                )
                try:
                    while not self._ended.is_set():
                        event = watch.next(0.2)
                        if event is not None and event.type != "BOOKMARK":
                            self._keep(event.object)
                finally:
                    watch.close()
            except ApiError:
                self._ended.wait(0.2)

    def _keep(self, job: Object) -> None:
        status = job.get("status") or {}
        seen = {
            k: status.get(k)
            for k in ("jobDeploymentStatus", "jobStatus", "rayClusterName", "failed", "message")
        }
        seen["suspend"] = (job.get("spec") or {}).get("suspend", False)
        if self.states[-1:] != [seen]:
            self.states.append(seen)


@pytest.fixture(scope="module")
def place(fleet: Fleet) -> Iterator[Object]:
    """Where pods of this module go, and no others."""
    names = fleet.plane.gpu_nodes(1, 2 * GPUS, prefix=PLACE, labels={PLACE: "true"})
    taint = {"spec": {"taints": [{"key": PLACE, "value": "true", "effect": "NoSchedule"}]}}
    fleet.plane.port.patch(R.NODE, names[0], taint)
    toleration = {"key": PLACE, "operator": "Exists", "effect": "NoSchedule"}
    yield {"nodeSelector": {PLACE: "true"}, "tolerations": [toleration]}
    fleet.plane.remove_nodes(names)


def ray_job(name: str, place: Object, mode: str = "HTTPMode", **more: Any) -> Object:
    """A head, and two workers that share half of the place; its job never ends by itself."""
    style = Style(ours=True, gpus=GPUS // 2, place=place)
    made = w.ray_job(f"runs-{name}", mode, style, **more)
    made["spec"].pop("submitterPodTemplate", None)
    return made


def better(name: str, place: Object) -> Object:
    """A Job of a higher priority, that takes half of the place until it is deleted."""
    made = w.job(name, Style(ours=True, gpus=GPUS, place=place), 1)
    made["metadata"]["labels"][L.PRIORITY_CLASS] = "build-preemptible"
    made["spec"]["template"]["metadata"]["annotations"].clear()
    return made


def runs(fleet: Fleet, job: Object, seconds: float = 60) -> Object:
    return fleet.wait(
        TEMPLATE, job, lambda j: j["status"].get("jobDeploymentStatus") == "Running", seconds
    )


def bound(fleet: Fleet, name: str) -> Callable[[], bool]:
    def done() -> bool:
        pods = fleet.plane.port.list(R.POD, TEMPLATE, labels=f"job-name={name}").items
        return any(p["spec"].get("nodeName") for p in pods)

    return done


def remove(fleet: Fleet, *jobs: Object) -> None:
    for job in jobs:
        kind = R.BY_KIND[job["apiVersion"], job["kind"]]
        fleet.plane.port.delete(kind, job["metadata"]["name"], TEMPLATE)


def test_what_can_be_suspended_goes_first_and_all_begin_again(fleet: Fleet, place: Object) -> None:
    """The one that cannot be is newer, and would go first by its age."""
    ends = ray_job("ends", place, shutdownAfterJobFinishes=True)
    kept = ray_job("kept", place, "K8sJobMode")
    fleet.submit(TEMPLATE, ends)
    assert runs(fleet, ends)["status"]["jobDeploymentStatus"] == "Running"
    fleet.submit(TEMPLATE, kept)
    before = runs(fleet, kept)["status"]
    assert before["jobDeploymentStatus"] == "Running"
    diaries = [Diary(fleet, TEMPLATE, job["metadata"]["name"]) for job in (ends, kept)]
    one, two = better("better-one", place), better("better-two", place)
    try:
        fleet.submit(TEMPLATE, one)
        assert fleet.until(bound(fleet, "better-one"))
        assert diaries[1].words() == ["Running"], "nothing has happened to it"
        fleet.submit(TEMPLATE, two)
        assert fleet.until(bound(fleet, "better-two"))
        remove(fleet, one, two)

        def again(job: Object) -> Callable[[], bool]:
            old = before["rayClusterName"]

            def done() -> bool:
                status = fleet.get(TEMPLATE, job)["status"]
                new = status.get("rayClusterName") not in (None, "", old)
                return status.get("jobDeploymentStatus") == "Running" and new

            return done

        assert fleet.until(again(ends), 90)
        assert fleet.until(again(kept), 90)
    finally:
        for diary in diaries:
            diary.stop()
    suspended, retried = (diary.words() for diary in diaries)
    assert _in_order(suspended, "Running", "Suspending", "Suspended", "Initializing", "Running")
    assert _in_order(retried, "Running", "Retrying", "Initializing", "Running")
    for job in (ends, kept):
        found = fleet.get(TEMPLATE, job)
        assert not found["status"].get("failed"), "an eviction is no failure"
        assert not found["spec"].get("suspend")
        assert L.ATTEMPT_ENDED not in found["metadata"]["annotations"]
    names = [c["metadata"]["name"] for c in fleet.plane.port.list(R.RAY_CLUSTER, TEMPLATE).items]
    assert before["rayClusterName"] not in names
    remove(fleet, ends, kept)


def test_a_job_whose_cluster_alone_is_gone_is_begun_again_by_its_backoff_limit(
    fleet: Fleet, place: Object
) -> None:
    """What is left to KubeRay where we may not write the status of RayJobs."""
    job = ray_job("sidecar", place, "SidecarMode", backoffLimit=1)
    fleet.submit(TEMPLATE, job)
    before = runs(fleet, job)["status"]["rayClusterName"]
    fleet.plane.port.delete(R.RAY_CLUSTER, before, TEMPLATE)
    found = fleet.wait(
        TEMPLATE,
        job,
        lambda j: (
            j["status"].get("jobDeploymentStatus") == "Running"
            and j["status"].get("rayClusterName") != before
        ),
        90,
    )
    assert found["status"]["rayClusterName"] not in ("", before)
    assert found["status"]["failed"] == 1
    remove(fleet, job)


def test_a_gang_is_told_and_goes_as_soon_as_it_has_saved(fleet: Fleet, place: Object) -> None:
    style = Style(ours=True, gpus=GPUS, place=place)
    job = w.training_job("PyTorchJob", "told", style, {"Worker": 2})
    job["metadata"]["annotations"] = {L.EVICTION_GRACE: "5m"}
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        (role["template"].get("metadata") or {}).get("annotations", {}).clear()
    fleet.submit(TEMPLATE, job)

    def pods() -> list[Object]:
        labels = "training.kubeflow.org/job-name=told"
        found = fleet.plane.port.list(R.POD, TEMPLATE, labels=labels).items
        return [p for p in found if (p.get("status") or {}).get("phase") == "Running"]

    assert fleet.until(lambda: len(pods()) == 2)
    one = better("better-than-told", place)
    fleet.submit(TEMPLATE, one)
    assert fleet.until(lambda: all(map(told, [fleet.get(TEMPLATE, job), *pods()])))
    assert told(fleet.get(TEMPLATE, job))["reason"] == "Preempted"
    assert not bound(fleet, "better-than-told")(), "it has five minutes"
    assert len(pods()) == 2
    saved = {"metadata": {"annotations": {L.CHECKPOINT_TIME: rfc3339(time.time())}}}
    for pod in pods():
        fleet.plane.port.patch(R.POD, pod["metadata"]["name"], saved, TEMPLATE)
    assert fleet.until(bound(fleet, "better-than-told"), 30)
    remove(fleet, one)
    assert fleet.until(lambda: len(pods()) == 2, 60), "it was resumed"
    assert not told(fleet.get(TEMPLATE, job))
    remove(fleet, job)


def told(obj: Object) -> dict[str, str]:
    text = (obj["metadata"].get("annotations") or {}).get(L.EVICTION_NOTICE)
    return json.loads(text) if text else {}


def _in_order(words: list[str], *wanted: str) -> bool:
    left = iter(words)
    return all(word in left for word in wanted)

"""Much work at once, nodes that fail, pods that are evicted: nothing is given twice or lost."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import NotFound, Object, Resource, TooManyRequests
from kai_ray.sim import pod_facts
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.e2e import outcomes
from tests.sim.worlds import status_condition

NODES, GPUS = 8, 8
FAILURES = {"mtbfSeconds": 2000, "repairSeconds": 100}
ENDS = ("Complete", "Completed", "Succeeded", "Failed")


def container(name: str, gpus: int) -> Object:
    limits = {"cpu": "1", **({L.NVIDIA_GPU: str(gpus)} if gpus else {})}
    return {"name": name, "image": "x", "resources": {"limits": limits}}


def template(name: str, gpus: int, **spec: Any) -> Object:
    return {"spec": {"containers": [container(name, gpus)], **spec}}


def ray_cluster(workers: int, gpus: int) -> Object:
    group = {
        "groupName": "w",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": template("ray-worker", gpus),
    }
    head = {"rayStartParams": {}, "template": template("ray-head", 0)}
    return {"rayVersion": "2.49.0", "headGroupSpec": head, "workerGroupSpecs": [group]}


def workload(draw: random.Random) -> tuple[Resource, Object]:
    """A spec of a random kind and size; each asks for at most 7/8 of the cluster at once."""
    pods, gpus = draw.randint(1, 6), draw.choice([0, 1, 2, 4, 8])
    restart = {"restartPolicy": "OnFailure"}
    kind = draw.choice(["Job", "PyTorchJob", "MPIJob", "JobSet", "RayJob", "RayCluster"])
    if kind == "Job":
        pod = template("c", gpus, restartPolicy="Never")
        return R.JOB, {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 99,
            "template": pod,
        }
    if kind == "PyTorchJob":
        pod = template("pytorch", gpus)
        specs = {"Master": {"replicas": 1, "template": pod, **restart}}
        specs["Worker"] = {"replicas": pods, "template": pod, **restart}
        return R.PYTORCH_JOB, {
            "runPolicy": {"cleanPodPolicy": "Running"},
            "pytorchReplicaSpecs": specs,
        }
    if kind == "MPIJob":
        specs = {"Launcher": {"replicas": 1, "template": template("mpi", 0), **restart}}
        specs["Worker"] = {"replicas": pods, "template": template("mpi", gpus)}
        return R.MPI_JOB, {"runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": specs}
    if kind == "JobSet":
        job = {"parallelism": pods, "completions": pods, "template": template("c", min(gpus, 4))}
        group = {"name": "a", "replicas": 2, "template": {"spec": job}}
        return R.JOB_SET, {"failurePolicy": {"maxRestarts": 50}, "replicatedJobs": [group]}
    if kind == "RayCluster":
        return R.RAY_CLUSTER, ray_cluster(pods, gpus)
    mode = draw.choice(["K8sJobMode", "HTTPMode", "SidecarMode"])
    return R.RAY_JOB, {
        "entrypoint": "x",
        "submissionMode": mode,
        "shutdownAfterJobFinishes": True,
        "backoffLimit": 50,
        "rayClusterSpec": ray_cluster(pods, gpus),
    }


class Killed(BaseException):
    """No error that anybody could handle."""


class Storm:
    """Work that comes and goes, and what must hold all the while."""

    def __init__(self, seed: int, state: Path | None = None, **pool: Any) -> None:
        self.draw = random.Random(seed)
        self.state = state
        self.kills = 0
        raw = {
            "nodePools": [{"name": "n", "count": NODES, "gpus": GPUS, **pool}],
            "kubelet": {"evictAfterSeconds": 30},
            "seed": seed,
        }
        self.config = ClusterConfig.of(raw)
        self.cluster = EmbeddedCluster(self.config, VirtualClock(), state)
        self.left: list[tuple[Resource, str]] = []

    def submit(self, n: int) -> None:
        resource, spec = workload(self.draw)
        notes = {L.RUN_TIME: f"{self.draw.randint(5, 120)}s"}
        if self.draw.random() < 0.2:
            notes[L.EXIT_CODE] = "1,0"
        meta = {"name": f"w{n}", "namespace": "default", "annotations": notes}
        self.cluster.client.create(resource, {"metadata": meta, "spec": spec})
        self.left.append((resource, f"w{n}"))

    def disturb(self) -> None:
        """Sometimes deletes a workload, sometimes evicts a pod."""
        if self.left and self.draw.random() < 0.15:
            resource, name = self.left.pop(self.draw.randrange(len(self.left)))
            self.delete(resource, name)
        bound = [p for p in self.cluster.client.list(R.POD).items if p["spec"].get("nodeName")]
        if bound and self.draw.random() < 0.2:
            victim = self.draw.choice(bound)["metadata"]["name"]
            try:
                self.cluster.client.evict("default", victim)
            except (NotFound, TooManyRequests):
                return

    def delete(self, resource: Resource, name: str) -> None:
        try:
            self.cluster.client.delete(resource, name, "default")
        except NotFound:
            return

    def run_until_killed(self, writes: int, seconds: float) -> None:
        """Runs until so many writes are stored; then nothing more is, as after a kill -9."""
        store, commit, left = self.cluster.store, self.cluster.store.commit, [writes]

        def failing(*args: Any, **more: Any) -> Object:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return commit(*args, **more)

        store.commit = failing  # pyright: ignore[reportAttributeAccessIssue]
        try:
            self.cluster.run_for(seconds)
        except Killed:
            store.commit = commit  # pyright: ignore[reportAttributeAccessIssue]
            self._go_on()
        else:
            store.commit = commit  # pyright: ignore[reportAttributeAccessIssue]

    def _go_on(self) -> None:
        """Starts anew from a copy of the state file as it is."""
        assert self.state is not None
        old, now = self.cluster, self.cluster.clock.now()
        assert old.runtime.errors == 0 and not old.refusals
        copy = self.state.with_name(f"{self.state.name}-next")
        shutil.copytree(self.state, copy)
        self.state = copy
        self.cluster = EmbeddedCluster(self.config, VirtualClock(now + 1), copy)
        self.kills += 1
        old.stop()

    def check(self) -> None:
        """Nodes hold what they have, and each GPU has one holder."""
        held: Counter[str] = Counter()
        devices: Counter[str] = Counter()
        for pod in self.cluster.client.list(R.POD).items:
            if not pod["spec"].get("nodeName") or pod_facts.is_finished(pod):
                continue
            held[pod["spec"]["nodeName"]] += pod_facts.requests(pod).get(L.NVIDIA_GPU, 0)
            for status in pod["status"].get("containerStatuses") or ():
                for given in status.get("allocatedResourcesStatus") or ():
                    devices.update(d["resourceID"] for d in given["resources"])
        assert all(count <= GPUS for count in held.values()), held
        assert all(count == 1 for count in devices.values()), devices
        assert not self.cluster.kubelet.refused

    def settled(self) -> bool:
        """Takes out what has ended, and clusters once they have been ready."""
        for resource, name in list(self.left):
            try:
                found = self.cluster.client.get(resource, name, "default")
            except NotFound:
                self.left.remove((resource, name))
                continue
            status = found.get("status") or {}
            ended = status.get("jobDeploymentStatus") in ("Complete", "Failed") or any(
                status_condition(found, kind) == "True" for kind in ENDS
            )
            if status.get("state") == "ready":
                self.delete(resource, name)
            if ended or status.get("state") == "ready":
                self.left.remove((resource, name))
        return not self.left


@pytest.mark.parametrize(
    ("seed", "pool"), [(1, {}), (2, {}), (4, {"failures": FAILURES}), (15, {"failures": FAILURES})]
)
def test_a_storm_passes(seed: int, pool: Object) -> None:
    storm = Storm(seed, **pool)
    with storm.cluster as cluster:
        for n in range(30):
            storm.submit(n)
            cluster.run_for(storm.draw.uniform(0, 20))
            storm.check()
            storm.disturb()
        assert cluster.run_until(storm.settled, 20_000), (storm.left, outcomes.waiting(cluster)[:5])
        storm.check()
        assert cluster.runtime.errors == 0 and not cluster.refusals


@pytest.mark.parametrize(("seed", "pool"), [(3, {"failures": FAILURES}), (4, {})])
def test_a_storm_passes_over_kills_between_any_two_writes(
    seed: int, pool: Object, tmp_path: Path
) -> None:
    storm = Storm(seed, tmp_path / "state", **pool)
    for n in range(20):
        storm.submit(n)
        storm.run_until_killed(storm.draw.randint(1, 100), storm.draw.uniform(0, 20))
        storm.check()
        storm.disturb()
    with storm.cluster as cluster:
        assert storm.kills > 5
        assert cluster.run_until(storm.settled, 20_000), (storm.left, outcomes.waiting(cluster)[:5])
        storm.check()
        assert cluster.runtime.errors == 0 and not cluster.refusals


def test_a_pod_that_is_replaced_does_not_wait_for_those_that_have_succeeded() -> None:
    """Workers done, the master evicted: the new master starts alone."""
    with EmbeddedCluster(ClusterConfig.short("4x8"), VirtualClock()) as cluster:
        pod = template("pytorch", 1)
        long, short = (
            {"metadata": {"annotations": {L.RUN_TIME: t}}, **pod} for t in ("90s", "30s")
        )
        specs = {
            "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": long},
            "Worker": {"replicas": 3, "restartPolicy": "OnFailure", "template": short},
        }
        meta = {"name": "t", "namespace": "default"}
        cluster.client.create(
            R.PYTORCH_JOB, {"metadata": meta, "spec": {"pytorchReplicaSpecs": specs}}
        )
        cluster.run_for(40)
        cluster.client.evict("default", "t-master-0")

        def done() -> bool:
            found = cluster.client.get(R.PYTORCH_JOB, "t", "default")
            return status_condition(found, "Succeeded") == "True"

        assert cluster.run_until(done, 300), outcomes.waiting(cluster)

"""Stand-in for KubeRay's RayJob controller: cluster, four submission modes, retries, clean-up."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim.run_model import RunModel

from . import ray_names as names
from . import raycluster_services as services
from .rayjob_cluster import Cleanup, mode_of, new_cluster
from .rayjob_outcome import Outcomes
from .rayjob_rules import SELECTOR, problem_of, refused
from .rayjob_submitter import submitter_job
from .world import World, is_deleting, own_copy, split_key, suffix

FINALIZER = "ray.io/rayjob-finalizer"


class RayJobOperator:
    """`run_time`: how long an entrypoint runs where no pod shows it (HTTPMode, InteractiveMode)."""

    name = "rayjob"

    def __init__(self, run_time: RunModel, seed: int = 0) -> None:
        self._run_time = run_time
        self._seed = seed

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._clean = Cleanup(self._world)
        self._outcomes = Outcomes(self._world, self._run_time, self._seed)
        self._world.watch(self.name, R.RAY_JOB)
        for resource in (R.RAY_CLUSTER, R.JOB):
            self._world.watch_owned(self.name, resource, R.RAY_JOB)
        runtime.informer(R.RAY_CLUSTER).on_change(self._selected_cluster_changed)
        runtime.informer(R.POD).on_change(self._head_changed)
        self._runtime = runtime
        runtime.informer(R.RAY_JOB).add_index(
            "rayjob-cluster", lambda j: ((j.get("status") or {}).get("rayClusterName") or "",)
        )

    def _selected_cluster_changed(self, old: Object | None, new: Object | None) -> None:
        """A RayJob with a clusterSelector waits for a cluster that it does not own."""
        obj = new or old
        assert obj is not None
        self._enqueue_users(obj["metadata"]["name"], obj["metadata"]["namespace"])

    def _head_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or len(new["spec"].get("containers") or ()) < 2:
            return
        labels = new["metadata"].get("labels") or {}
        if labels.get(L.RAY_NODE_TYPE) == "head":
            self._enqueue_users(labels.get(L.RAY_CLUSTER, ""), new["metadata"]["namespace"])

    def _enqueue_users(self, cluster: str, namespace: str) -> None:
        for job in self._runtime.informer(R.RAY_JOB).by_index("rayjob-cluster", cluster):
            if job["metadata"]["namespace"] == namespace:
                self._runtime.enqueue(self.name, f"{namespace}/{job['metadata']['name']}")

    # ------------------------------------------------------------------ the state machine

    def reconcile(self, key: str) -> float | None:
        job = self._world.get(R.RAY_JOB, *split_key(key))
        if job is None:
            return None
        if is_deleting(job):
            self._drop_finalizer(job)
            return None
        problem = problem_of(job)
        if problem:
            self._world.set_status(R.RAY_JOB, job, refused(job, problem))
            return None
        status = own_copy(job.get("status") or {})
        state = status.get("jobDeploymentStatus", "")
        if not state and FINALIZER not in (job["metadata"].get("finalizers") or ()):
            fresh = own_copy(job)
            fresh["metadata"]["finalizers"] = [
                *(job["metadata"].get("finalizers") or ()),
                FINALIZER,
            ]
            job = self._world.update(R.RAY_JOB, fresh)
        steps: dict[str, Callable[[Object, Object], float | None]] = {
            "": self._new,
            "Initializing": self._initializing,
            "Waiting": self._waiting,
            "Running": self._running,
            "Suspending": self._tearing_down,
            "Retrying": self._tearing_down,
            "Suspended": self._suspended,
            "Complete": self._clean.after_end,
            "Failed": self._clean.after_end,
        }
        step = steps.get(state)
        if step is None:
            return None
        again = step(job, status)
        if state not in ("Complete", "Failed"):
            self._count_end(job, status)
        if status.get("jobDeploymentStatus") in ("Complete", "Failed"):
            status.setdefault("endTime", self._world.stamp())
        self._world.set_status(R.RAY_JOB, job, status)
        # The next state's step is reached by the change of status that was just written.
        return again

    def _new(self, job: Object, status: Object) -> float | None:
        spec, meta = job["spec"], job["metadata"]
        # Each attempt has names of its own; what began before is what sets it apart.
        attempt = (meta["uid"], status.get("failed") or 0, meta.get("generation", 1))
        attempt += (status["startTime"],) if "startTime" in status else ()
        if spec.get("submissionMode") != "InteractiveMode" and not status.get("jobId"):
            status["jobId"] = spec.get("jobId") or f"{meta['name']}-{suffix('job', *attempt)}"
        selected = (spec.get("clusterSelector") or {}).get(SELECTOR)
        status["rayClusterName"] = selected or f"{meta['name']}-{suffix('cluster', *attempt)}"
        status["jobDeploymentStatus"] = "Initializing"
        status["startTime"] = self._world.stamp()
        if spec.get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
        return None

    def _going_on(self, job: Object, status: Object) -> tuple[Object | None, float | None]:
        """The cluster of an attempt that may go on, if it is there, and the seconds it has left."""
        if job["spec"].get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
            return None, None
        left = self._deadline(job, status)
        if left is not None and left <= 0:
            return None, None
        return self._cluster(job, status), left

    def _initializing(self, job: Object, status: Object) -> float | None:
        cluster, left = self._going_on(job, status)
        if cluster is None:
            return left
        cluster_status = cluster.get("status") or {}
        if cluster_status.get("state") != "ready" and not status.get("dashboardURL"):
            status["rayClusterStatus"] = cluster_status
            return left
        port = services.service_ports(cluster).get("dashboard", 8265)
        status["dashboardURL"] = f"{names.service_fqdn(cluster)}:{port}"
        mode = mode_of(job)
        if mode == "InteractiveMode":
            status["jobDeploymentStatus"] = "Waiting"
            return None
        if mode == "K8sJobMode":
            self._world.ensure(R.JOB, submitter_job(job, status, cluster))
        status["jobDeploymentStatus"] = "Running"
        status["rayClusterStatus"] = cluster_status
        return None

    def _waiting(self, job: Object, status: Object) -> float | None:
        """InteractiveMode: until the user says which submission is meant."""
        if job["spec"].get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
        elif job["spec"].get("jobId"):
            status["jobId"] = job["spec"]["jobId"]
            status["jobDeploymentStatus"] = "Running"
        return None

    def _running(self, job: Object, status: Object) -> float | None:
        cluster, left = self._going_on(job, status)
        if cluster is None:
            return left
        status["rayClusterStatus"] = cluster.get("status") or {}
        info = status.setdefault("rayJobInfo", {})
        info.setdefault("startTime", self._world.stamp())
        outcome, wait = self._outcomes.of(job, status, cluster)
        if outcome is None:
            status["jobStatus"] = "RUNNING"
            waits = [w for w in (wait, left) if w is not None]
            return min(waits) if waits else None
        info["endTime"] = self._world.stamp()
        if outcome == 0:
            status.update(
                jobStatus="SUCCEEDED",
                jobDeploymentStatus="Complete",
                message="Job finished successfully.",
            )
        else:
            status.update(
                jobStatus="FAILED",
                jobDeploymentStatus="Failed",
                reason="AppFailed",
                message=f"Job entrypoint command failed with exit code {outcome}.",
            )
        return None

    def _deadline(self, job: Object, status: Object) -> float | None:
        """Seconds until activeDeadlineSeconds; fails the job once it has passed."""
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is None:
            return None
        left = limit - self._world.age_s(status.get("startTime"))
        if left <= 0:
            status.update(
                jobDeploymentStatus="Failed",
                reason="DeadlineExceeded",
                message=f"The RayJob has passed its activeDeadlineSeconds of {limit}.",
            )
        return left

    def _count_end(self, job: Object, status: Object) -> None:
        """Counts an attempt that has just ended, and retries while the backoff limit allows."""
        state = status.get("jobDeploymentStatus")
        status.setdefault("failed", 0)
        status.setdefault("succeeded", 0)
        if state == "Failed":
            status["failed"] += 1
            limit = job["spec"].get("backoffLimit") or 0
            if status["failed"] <= limit and status.get("reason") != "DeadlineExceeded":
                status["jobDeploymentStatus"] = "Retrying"
        elif state == "Complete" and status.get("jobStatus") == "SUCCEEDED":
            status["succeeded"] += 1

    def _tearing_down(self, job: Object, status: Object) -> float | None:
        if not self._clean.delete_cluster(job, status) or not self._clean.delete_submitter(job):
            return 1.0
        state = status["jobDeploymentStatus"]
        for field in (
            "rayClusterStatus",
            "rayClusterName",
            "dashboardURL",
            "jobId",
            "message",
            "reason",
            "rayJobInfo",
            "jobStatus",
        ):
            status.pop(field, None)
        if state == "Suspending":
            status["jobDeploymentStatus"] = "Suspended"
        else:
            status.pop("jobDeploymentStatus")
        return None

    def _suspended(self, job: Object, status: Object) -> float | None:
        if not job["spec"].get("suspend"):
            status.pop("jobDeploymentStatus")
        return None

    # ------------------------------------------------------------------ what it owns

    def _cluster(self, job: Object, status: Object) -> Object | None:
        namespace, name = job["metadata"]["namespace"], status.get("rayClusterName", "")
        cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
        if cluster is not None or job["spec"].get("clusterSelector"):
            return cluster
        return self._world.create(R.RAY_CLUSTER, new_cluster(job, name))

    def _drop_finalizer(self, job: Object) -> None:
        finalizers = job["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            fresh = own_copy(job)
            fresh["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            try:
                self._world.update(R.RAY_JOB, fresh)
            except NotFound:
                return

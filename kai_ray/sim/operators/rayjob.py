"""Stand-in for KubeRay's RayJob controller: cluster, four submission modes, retries, clean-up."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts
from kai_ray.sim.run_model import RunModel

from . import ray_names as names
from . import raycluster_services as services
from .raycluster import suspend_workers
from .rayjob_submitter import sidecar, submitter_job
from .world import World, condition, is_deleting, own_copy, owner_ref, split_key, suffix

FINALIZER = "ray.io/rayjob-finalizer"
SELECTOR = "ray.io/cluster"
_POLICIES = ("DeleteNone", "DeleteWorkers", "DeleteCluster", "DeleteSelf")


class RayJobOperator:
    """`run_time`: how long an entrypoint runs where no pod shows it (HTTPMode, InteractiveMode)."""

    name = "rayjob"

    def __init__(self, run_time: RunModel, seed: int = 0) -> None:
        self._run_time = run_time
        self._seed = seed

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
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
        problem = _invalid(job)
        if problem:
            self._world.set_status(R.RAY_JOB, job, _refused(job, problem))
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
            "Complete": self._ended,
            "Failed": self._ended,
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
        # A retry counts a failure and a resume changes the spec: each attempt has names of its own.
        attempt = (meta["uid"], status.get("failed") or 0, meta.get("generation", 1))
        if spec.get("submissionMode") != "InteractiveMode" and not status.get("jobId"):
            status["jobId"] = spec.get("jobId") or f"{meta['name']}-{suffix('job', *attempt)}"
        selected = (spec.get("clusterSelector") or {}).get(SELECTOR)
        status["rayClusterName"] = selected or f"{meta['name']}-{suffix('cluster', *attempt)}"
        status["jobDeploymentStatus"] = "Initializing"
        status["startTime"] = self._world.stamp()
        if spec.get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
        return None

    def _initializing(self, job: Object, status: Object) -> float | None:
        if job["spec"].get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
            return None
        left = self._deadline(job, status)
        if left is not None and left <= 0:
            return None
        cluster = self._cluster(job, status)
        if cluster is None:
            return left
        cluster_status = cluster.get("status") or {}
        if cluster_status.get("state") != "ready" and not status.get("dashboardURL"):
            status["rayClusterStatus"] = cluster_status
            return left
        port = services.service_ports(cluster).get("dashboard", 8265)
        status["dashboardURL"] = f"{names.service_fqdn(cluster)}:{port}"
        mode = _mode(job)
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
        if job["spec"].get("suspend"):
            status["jobDeploymentStatus"] = "Suspending"
            return None
        left = self._deadline(job, status)
        if left is not None and left <= 0:
            return None
        cluster = self._cluster(job, status)
        if cluster is None:
            return left
        status["rayClusterStatus"] = cluster.get("status") or {}
        info = status.setdefault("rayJobInfo", {})
        info.setdefault("startTime", self._world.stamp())
        outcome, wait = self._outcome(job, status, cluster)
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

    def _outcome(
        self, job: Object, status: Object, cluster: Object
    ) -> tuple[int | None, float | None]:
        """The entrypoint's exit code, or None and when to look again."""
        mode = _mode(job)
        if mode == "K8sJobMode":
            return self._submitter_outcome(job, status, cluster), None
        head = self._head(cluster)
        if head is None and (cluster["metadata"].get("annotations") or {}).get(
            names.NO_HEAD_RESTART
        ):
            return 1, None
        if mode == "SidecarMode":
            state = pod_facts.container_state(head, pod_facts.SUBMITTER) if head else {}
            ended = state.get("terminated")
            if ended is None:
                return None, None
            return ended["exitCode"] or self._code(job, status), None
        began = epoch(status["rayJobInfo"]["startTime"])
        due = began + self._seconds(job, status) - self._world.now()
        return (None, due) if due > 0 else (self._code(job, status), None)

    def _submitter_outcome(self, job: Object, status: Object, cluster: Object) -> int | None:
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        submitter = self._world.get(R.JOB, namespace, name)
        if submitter is None:
            self._world.create(R.JOB, submitter_job(job, status, cluster))
            return None
        done = condition(submitter, "Complete")
        failed = condition(submitter, "Failed")
        if done and done["status"] == "True":
            return self._code(job, status)
        return 1 if failed and failed["status"] == "True" else None

    def _seconds(self, job: Object, status: Object) -> float:
        text = (job["metadata"].get("annotations") or {}).get(L.RUN_TIME)
        if text:
            try:
                return pod_facts.duration_s(text)
            except ValueError:
                pass
        meta = job["metadata"]
        return self._run_time.seconds(
            self._seed, meta["namespace"], meta["name"], status.get("failed") or 0
        )

    def _code(self, job: Object, status: Object) -> int:
        text = (job["metadata"].get("annotations") or {}).get(L.EXIT_CODE)
        try:
            return pod_facts.codes(text)(status.get("failed") or 0) if text else 0
        except ValueError:
            return 0

    def _head(self, cluster: Object) -> Object | None:
        for pod in self._world.owned(R.POD, cluster):
            if (pod["metadata"].get("labels") or {}).get(L.RAY_NODE_TYPE) == "head":
                return pod
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
        if not self._delete_cluster(job, status) or not self._delete_submitter(job):
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

    # ------------------------------------------------------------------ after the end

    def _ended(self, job: Object, status: Object) -> float | None:
        spec = job["spec"]
        if spec.get("clusterSelector"):
            return None
        strategy = spec.get("deletionStrategy")
        if strategy is not None:
            return self._deletion_rules(job, status, strategy)
        if not spec.get("shutdownAfterJobFinishes"):
            return None
        left = (spec.get("ttlSecondsAfterFinished") or 0) - self._world.age_s(status.get("endTime"))
        if left > 0:
            return left
        self._delete_cluster(job, status)
        return None

    def _deletion_rules(self, job: Object, status: Object, strategy: Object) -> float | None:
        age = self._world.age_s(status.get("endTime"))
        rules: list[tuple[float, str]] = []
        for rule in strategy.get("deletionRules") or ():
            if _matches(rule.get("condition") or {}, status):
                ttl = (rule.get("condition") or {}).get("ttlSeconds") or 0
                rules.append((ttl, rule["policy"]))
        legacy = strategy.get(
            "onSuccess" if status.get("jobStatus") == "SUCCEEDED" else "onFailure"
        )
        if not strategy.get("deletionRules") and legacy:
            rules.append((job["spec"].get("ttlSecondsAfterFinished") or 0, legacy["policy"]))
        due = [policy for ttl, policy in rules if ttl <= age]
        if due:
            self._apply(job, status, max(due, key=_POLICIES.index))
        later = [ttl - age for ttl, _ in rules if ttl > age]
        return min(later) if later else None

    def _apply(self, job: Object, status: Object, policy: str) -> None:
        if policy == "DeleteCluster":
            self._delete_cluster(job, status)
        elif policy == "DeleteSelf":
            self._world.delete(R.RAY_JOB, job)
        elif policy == "DeleteWorkers":
            name, namespace = status.get("rayClusterName", ""), job["metadata"]["namespace"]
            cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
            groups = (cluster or {"spec": {}})["spec"].get("workerGroupSpecs") or ()
            if cluster is not None and not all(g.get("suspend") for g in groups):
                suspend_workers(self._world, cluster)

    # ------------------------------------------------------------------ what it owns

    def _cluster(self, job: Object, status: Object) -> Object | None:
        namespace, name = job["metadata"]["namespace"], status.get("rayClusterName", "")
        cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
        if cluster is not None or job["spec"].get("clusterSelector"):
            return cluster
        return self._world.create(R.RAY_CLUSTER, self._new_cluster(job, name))

    def _new_cluster(self, job: Object, name: str) -> Object:
        meta, mode = job["metadata"], _mode(job)
        labels = {
            **(meta.get("labels") or {}),
            names.ORIGIN_NAME: meta["name"],
            names.ORIGIN_KIND: "RayJob",
            names.SUBMISSION_MODE: mode,
        }
        annotations = {
            k: v
            for k, v in (meta.get("annotations") or {}).items()
            if k != "kubectl.kubernetes.io/last-applied-configuration"
        }
        spec = own_copy(job["spec"]["rayClusterSpec"])
        if mode == "SidecarMode":
            annotations[names.NO_HEAD_RESTART] = "true"
            pod_spec = spec["headGroupSpec"]["template"]["spec"]
            pod_spec["containers"].append(sidecar(job))
            pod_spec["restartPolicy"] = "Never"
        new_meta: Object = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_ref(R.RAY_JOB, job)],
        }
        if annotations:
            new_meta["annotations"] = annotations
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": new_meta,
            "spec": spec,
        }

    def _delete_cluster(self, job: Object, status: Object) -> bool:
        """True once the cluster and its pods are gone. Selected clusters are not ours to delete."""
        if job["spec"].get("clusterSelector"):
            return True
        namespace, name = job["metadata"]["namespace"], status.get("rayClusterName", "")
        cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
        if cluster is None:
            return True
        self._world.delete(R.RAY_CLUSTER, cluster)
        return False

    def _delete_submitter(self, job: Object) -> bool:
        meta = job["metadata"]
        submitter = self._world.get(R.JOB, meta["namespace"], meta["name"])
        if submitter is None or _mode(job) != "K8sJobMode":
            return True
        self._world.delete(R.JOB, submitter)
        return False

    def _drop_finalizer(self, job: Object) -> None:
        finalizers = job["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            fresh = own_copy(job)
            fresh["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            try:
                self._world.update(R.RAY_JOB, fresh)
            except NotFound:
                return


def _mode(job: Object) -> str:
    return job["spec"].get("submissionMode") or "K8sJobMode"


def _matches(rule: Object, status: Object) -> bool:
    if rule.get("jobStatus"):
        return rule["jobStatus"] == status.get("jobStatus")
    return rule.get("jobDeploymentStatus") == status.get("jobDeploymentStatus")


def _invalid(job: Object) -> str:
    spec = job["spec"]
    selected = spec.get("clusterSelector")
    if not selected and not spec.get("rayClusterSpec"):
        return "spec.rayClusterSpec: missing: describe a cluster or name one in clusterSelector"
    if selected and not selected.get(SELECTOR):
        return f"spec.clusterSelector: name the cluster under the key {SELECTOR}"
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "spec.suspend: set shutdownAfterJobFinishes to true to suspend a RayJob"
    if spec.get("suspend") and selected:
        return "spec.suspend: a RayJob that uses clusterSelector cannot be suspended"
    if (spec.get("backoffLimit") or 0) < 0:
        return "spec.backoffLimit: negative: use 0 or more"
    if _mode(job) == "SidecarMode" and selected:
        return "spec.submissionMode: SidecarMode needs a cluster of its own, not clusterSelector"
    return ""


def _refused(job: Object, problem: str) -> Object:
    return {
        **(job.get("status") or {}),
        "jobDeploymentStatus": "ValidationFailed",
        "reason": "ValidationFailed",
        "message": problem,
    }

"""Stand-in for the JobSet controller: order, success and failure policies, restarts, suspension."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from . import jobset_jobs as jobs_of
from .world import World, condition, is_deleting, is_true, own_copy, split_key


class JobSetOperator:
    name = "jobset"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.JOB_SET)
        self._world.watch_owned(self.name, R.JOB, R.JOB_SET)

    def reconcile(self, key: str) -> float | None:
        jobset = self._world.get(R.JOB_SET, *split_key(key))
        if jobset is None or is_deleting(jobset):
            return None
        manager = jobset["spec"].get("managedBy", "jobset.sigs.k8s.io/jobset-controller")
        if manager != "jobset.sigs.k8s.io/jobset-controller":
            return None
        spec = jobs_of.with_defaults(jobset["spec"])
        status = own_copy(jobset.get("status") or {})
        status.setdefault("restarts", 0)
        jobs = self._world.owned(R.JOB, jobset)
        wait = self._step(jobset, spec, status, jobs)
        self._world.set_status(R.JOB_SET, jobset, status)
        return wait

    def _step(
        self, jobset: Object, spec: Object, status: Object, jobs: list[Object]
    ) -> float | None:
        if is_true(jobset, "Completed") or is_true(jobset, "Failed"):
            return self._after_end(jobset, spec, status, jobs)
        attempt = str(status["restarts"])
        current = [j for j in jobs if j["metadata"]["labels"].get(jobs_of.RESTARTS) == attempt]
        for job in jobs:
            if job not in current:
                self._world.delete(R.JOB, job)
        status["replicatedJobsStatus"] = _group_statuses(spec, current)
        failed = [j for j in current if is_true(j, "Failed")]
        if failed:
            self._apply_failure(spec, status, failed)
            return 0.0 if status["restarts"] != int(attempt) else None
        if _has_succeeded(spec, current):
            self._condition(
                status, "Completed", "AllJobsCompleted", "jobset completed successfully"
            )
            status["terminalState"] = "Completed"
            self._delete_active(current)
            return None
        if spec["network"]["enableDNSHostnames"]:
            self._world.ensure(R.SERVICE, jobs_of.headless_service(jobset, spec))
        self._suspend_or_resume(spec, status, current)
        self._create_jobs(jobset, spec, status, current)
        return None

    # ------------------------------------------------------------------ jobs

    def _create_jobs(
        self, jobset: Object, spec: Object, status: Object, jobs: list[Object]
    ) -> None:
        known = {j["metadata"]["name"] for j in jobs}
        in_order = spec["startupPolicy"]["startupPolicyOrder"] == "InOrder"
        states = {s["name"]: s for s in status["replicatedJobsStatus"]}
        for group in spec["replicatedJobs"]:
            if not _may_start(group, states, spec):
                continue
            for index in range(group["replicas"]):
                if jobs_of.job_name(jobset, group["name"], index) not in known:
                    job = jobs_of.build_job(jobset, spec, group, index, status["restarts"])
                    self._world.create(R.JOB, job)
            if in_order and not spec["suspend"] and not _started(group, states[group["name"]]):
                text = "startup policy in order starting"
                self._condition(status, "StartupPolicyInProgress", "InOrderStartupPolicyExecuting", text)  # fmt: skip  # noqa: E501
                return
        if in_order and condition({"status": status}, "StartupPolicyInProgress"):
            text = "all replicated jobs have started"
            self._condition(status, "StartupPolicyCompleted", "StartupPolicyCompleted", text)
            self._condition(status, "StartupPolicyInProgress", "StartupPolicyCompleted", text, "False")  # fmt: skip  # noqa: E501

    def _suspend_or_resume(self, spec: Object, status: Object, jobs: list[Object]) -> None:
        suspend = bool(spec["suspend"])
        for job in jobs:
            if _is_finished(job) or bool(job["spec"].get("suspend")) == suspend:
                continue
            fresh = own_copy(job)
            fresh["spec"]["suspend"] = suspend
            self._world.update(R.JOB, fresh)
        if suspend:
            self._condition(status, "Suspended", "SuspendedJobs", "jobset is suspended")
        elif condition({"status": status}, "Suspended"):
            self._condition(status, "Suspended", "ResumeJobs", "jobset is resumed", "False")

    def _delete_active(self, jobs: list[Object]) -> None:
        for job in jobs:
            if not _is_finished(job):
                self._world.delete(R.JOB, job)

    # ------------------------------------------------------------------ failure and the end

    def _apply_failure(self, spec: Object, status: Object, failed: list[Object]) -> None:
        policy = spec.get("failurePolicy")
        first = min(failed, key=_failed_at)
        name = first["metadata"]["name"]
        if policy is None:
            text = f"jobset failed due to one or more job failures (first failed job: {name})"
            self._fail(status, "FailedJobs", text)
            return
        action = "RestartJobSet"
        for rule in policy.get("rules") or ():
            match = next((j for j in failed if _applies(rule, j)), None)
            if match is not None:
                action, name = rule["action"], match["metadata"]["name"]
                break
        if action == "FailJobSet":
            self._fail(status, "FailJobSetFailurePolicyAction", f"applying FailJobSet action (first failed job: {name})")  # fmt: skip  # noqa: E501
            return
        counted = action not in ("RestartJobSetAndIgnoreMaxRestarts",)
        used = status.get("restartsCountTowardsMax", 0)
        if counted and used >= (policy.get("maxRestarts") or 0):
            self._fail(status, "ReachedMaxRestarts", f"jobset failed due to reaching max number of restarts (first failed job: {name})")  # fmt: skip  # noqa: E501
            return
        status["restarts"] += 1
        status["restartsCountTowardsMax"] = used + (1 if counted else 0)

    def _fail(self, status: Object, reason: str, text: str) -> None:
        self._condition(status, "Failed", reason, text)
        status["terminalState"] = "Failed"

    def _after_end(
        self, jobset: Object, spec: Object, status: Object, jobs: list[Object]
    ) -> float | None:
        self._delete_active(jobs)
        attempt = str(status["restarts"])
        current = [j for j in jobs if j["metadata"]["labels"].get(jobs_of.RESTARTS) == attempt]
        status["replicatedJobsStatus"] = _group_statuses(spec, current)
        ttl = spec.get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = condition(jobset, "Completed") or condition(jobset, "Failed") or {}
        left = ttl - self._world.age_s(ended.get("lastTransitionTime"))
        if left <= 0:
            self._world.delete(R.JOB_SET, jobset)
            return None
        return left

    def _condition(
        self, status: Object, kind: str, reason: str, message: str, value: str = "True"
    ) -> None:
        conditions = status.setdefault("conditions", [])
        self._world.set_condition(conditions, kind, value, reason, message)


def _is_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _group_statuses(spec: Object, jobs: list[Object]) -> list[Object]:
    out: list[Object] = []
    for group in spec["replicatedJobs"]:
        counts = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        for job in jobs:
            if (
                job["metadata"]["labels"].get(jobs_of.PREFIX + "replicatedjob-name")
                != group["name"]
            ):
                continue
            state = job.get("status") or {}
            if is_true(job, "Complete"):
                counts["succeeded"] += 1
            elif is_true(job, "Failed"):
                counts["failed"] += 1
            else:
                counts["active"] += bool(state.get("active"))
                counts["suspended"] += bool(job["spec"].get("suspend"))
                pods = job["spec"].get("parallelism", 1)
                if job["spec"].get("completions") is not None:
                    pods = min(pods, job["spec"]["completions"])
                done = (state.get("ready") or 0) + (state.get("succeeded") or 0)
                counts["ready"] += done >= pods
        out.append({"name": group["name"], **counts})
    return out


def _started(group: Object, state: Object) -> bool:
    return state["ready"] + state["succeeded"] + state["failed"] >= group["replicas"]


def _may_start(group: Object, states: dict[str, Object], spec: Object) -> bool:
    """Whether everything in `dependsOn` has reached the status it is waited for."""
    sizes = {g["name"]: g["replicas"] for g in spec["replicatedJobs"]}
    for needed in group.get("dependsOn") or ():
        state = states.get(needed["name"])
        if state is None:
            return False
        reached = state["succeeded"]
        if needed.get("status") == "Ready":
            reached += state["ready"] + state["failed"]
        if reached < sizes[needed["name"]]:
            return False
    return True


def _has_succeeded(spec: Object, jobs: list[Object]) -> bool:
    policy = spec["successPolicy"]
    targets = policy.get("targetReplicatedJobs") or [g["name"] for g in spec["replicatedJobs"]]
    done = sum(
        is_true(j, "Complete")
        and j["metadata"]["labels"].get(jobs_of.PREFIX + "replicatedjob-name") in targets
        for j in jobs
    )
    if policy["operator"] == "Any":
        return done > 0
    wanted = sum(g["replicas"] for g in spec["replicatedJobs"] if g["name"] in targets)
    return wanted > 0 and done >= wanted


def _applies(rule: Object, job: Object) -> bool:
    reasons = rule.get("onJobFailureReasons") or ()
    targets = rule.get("targetReplicatedJobs") or ()
    found = condition(job, "Failed") or {}
    name = job["metadata"]["labels"].get(jobs_of.PREFIX + "replicatedjob-name")
    return (not reasons or found.get("reason") in reasons) and (not targets or name in targets)


def _failed_at(job: Object) -> str:
    return (condition(job, "Failed") or {}).get("lastTransitionTime", "")

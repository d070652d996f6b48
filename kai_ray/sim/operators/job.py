"""Stand-in for the Job controller: parallelism, completions, indices, back-off, suspension, TTL."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .job_pods import TRACKING, completion_index, format_indices, job_pod, parse_indices
from .job_policy import pod_failure_action
from .world import BURST, World, condition, is_deleting, is_true, own_copy, owner_of, split_key

BY_JOB = "job-pods"
FIRST_BACKOFF_S = 10.0
LAST_BACKOFF_S = 600.0


class JobOperator:
    name = "job"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._pods = runtime.informer(R.POD)
        self._pods.add_index(BY_JOB, _job_key)
        self._world.watch(self.name, R.JOB)
        self._world.watch_owned(self.name, R.POD, R.JOB)

    def reconcile(self, key: str) -> float | None:
        job = self._world.get(R.JOB, *split_key(key))
        uid = job["metadata"]["uid"] if job else ""
        pods: list[Object] = []
        for pod in self._pods.by_index(BY_JOB, key):
            ref = owner_of(pod)
            if ref is None or ref["uid"] != uid:
                self._untrack(pod)  # its Job is gone: nobody else would let the pod go
            else:
                pods.append(pod)
        if job is None:
            return None
        if is_deleting(job):
            for pod in pods:
                self._untrack(pod)
            return None
        if job["spec"].get("managedBy", "kubernetes.io/job-controller") != (
            "kubernetes.io/job-controller"
        ):
            return None
        pods.sort(key=lambda p: (p["metadata"].get("creationTimestamp") or "", _name(p)))
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return self._after_end(job, pods)
        return _Sync(self._world, job, pods).run()

    def _after_end(self, job: Object, pods: list[Object]) -> float | None:
        for pod in pods:
            if pod_facts.is_finished(pod) or is_deleting(pod):
                self._untrack(pod)
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        left = ttl - self._world.age_s(ended.get("lastTransitionTime"))
        if left > 0:
            return left
        self._world.delete(R.JOB, job)
        return None

    def _untrack(self, pod: Object) -> None:
        untrack(self._world, pod)


class _Sync:
    """One look at one running Job."""

    def __init__(self, world: World, job: Object, pods: list[Object]) -> None:
        self.world = world
        self.job = job
        self.spec = job["spec"]
        self.pods = pods
        self.status = own_copy(job.get("status") or {})
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")
        parallelism = self.spec.get("parallelism")
        self.parallelism = 1 if parallelism is None else parallelism
        if self.completions is None and parallelism is None:
            self.completions = 1
        self.done = parse_indices(self.status.get("completedIndexes", ""))

    def run(self) -> float | None:
        suspended = bool(self.spec.get("suspend"))
        fail = self._count_ended()
        active = [p for p in self.pods if not self._has_ended(p)]
        if suspended:
            self._suspend(active)
            return None
        self._resume()
        wait = None
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is not None:
            wait = deadline - self.world.age_s(self.status.get("startTime"))
            if wait <= 0:
                fail = fail or (
                    "DeadlineExceeded",
                    "Job was active longer than specified deadline",
                )
        fail = fail or self._past_backoff(active)
        if fail:
            self._finish("Failed", *fail, active)
            return None
        if self._is_complete(active):
            self._finish("Complete", "CompletionsReached", "Reached expected number of succeeded pods", active)  # fmt: skip  # noqa: E501
            return None
        pause = self._reconcile_pods(active)
        self._write(active)
        waits = [w for w in (wait, pause) if w is not None]
        return min(waits) if waits else None

    # ------------------------------------------------------------------ counting

    def _count_ended(self) -> tuple[str, str] | None:
        """Counts pods that ended, each once, also over a restart; a reason if the Job must fail."""
        known = self.status.get("uncountedTerminatedPods") or {}
        counted = {*(known.get("succeeded") or ()), *(known.get("failed") or ())}
        fresh: dict[str, list[str]] = {"succeeded": [], "failed": []}
        fail: tuple[str, str] | None = None
        self._ended = [p for p in self.pods if self._has_ended(p) and _is_tracked(p)]
        for pod in self._ended:
            uid = pod["metadata"]["uid"]
            good = pod_facts.phase(pod) == "Succeeded"
            fresh["succeeded" if good else "failed"].append(uid)
            if uid in counted:
                continue
            if good:
                self._count_success(pod)
                continue
            action = pod_failure_action(self.spec, pod)
            if action == "Ignore":
                continue
            self.status["failed"] = self.status.get("failed", 0) + 1
            if action == "FailJob":
                fail = (
                    "PodFailurePolicy",
                    f"Pod {_name(pod)} failed by a rule of podFailurePolicy",
                )
        self.status["uncountedTerminatedPods"] = {k: v for k, v in fresh.items() if v}
        return fail

    def _has_ended(self, pod: Object) -> bool:
        """A pod on its way out counts as ended, unless the Job replaces only what has failed."""
        if is_deleting(pod) and self.spec.get("podReplacementPolicy") != "Failed":
            return True
        return pod_facts.is_finished(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))

    def _count_success(self, pod: Object) -> None:
        if self.indexed:
            index = completion_index(pod)
            if index is None or index in self.done:
                return
            self.done.add(index)
            self.status["completedIndexes"] = format_indices(self.done)
        self.status["succeeded"] = self.status.get("succeeded", 0) + 1

    def _is_complete(self, active: list[Object]) -> bool:
        succeeded = self.status.get("succeeded", 0)
        if self.completions is None:
            return succeeded > 0 and not active
        return succeeded >= self.completions

    def _past_backoff(self, active: list[Object]) -> tuple[str, str] | None:
        limit = self.spec.get("backoffLimit")
        limit = 6 if limit is None else limit
        failed = self.status.get("failed", 0)
        if self.spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            failed += sum(pod_facts.restarts(p) for p in active)
        if failed <= limit:
            return None
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"

    # ------------------------------------------------------------------ pods

    def _reconcile_pods(self, active: list[Object]) -> float | None:
        """Creates or deletes pods up to what is wanted; seconds to wait for the back-off."""
        wanted = self.parallelism
        succeeded = self.status.get("succeeded", 0)
        if self.completions is not None:
            wanted = min(wanted, self.completions - succeeded)
        elif succeeded:
            wanted = len(active)
        if len(active) > wanted:
            surplus = sorted(active, key=lambda p: pod_facts.phase(p) == "Running")
            for pod in surplus[: len(active) - wanted]:
                self._drop(pod)
                active.remove(pod)
            return None
        if len(active) == wanted:
            return None
        pause = self._backoff()
        if pause > 0:
            return pause
        indices = self._free_indices(active, min(wanted - len(active), BURST))
        for index in indices:
            made = self.world.create(R.POD, job_pod(self.job, index))
            if made is not None:
                active.append(made)
        return None

    def _free_indices(self, active: list[Object], count: int) -> list[int | None]:
        if not self.indexed or self.completions is None:
            return [None] * count
        taken = {completion_index(p) for p in active} | self.done
        free = (i for i in range(self.completions) if i not in taken)
        return [i for i, _ in zip(free, range(count), strict=False)]

    def _backoff(self) -> float:
        """Seconds until a failed pod may be replaced: 10 s, doubled with each failure."""
        ended = [p for p in self.pods if pod_facts.phase(p) == "Failed"]
        if not ended or not self.status.get("failed"):
            return 0.0
        last = max(_ended_at(p) for p in ended)
        delay = FIRST_BACKOFF_S * 2 ** (min(self.status["failed"], 10) - 1)
        return min(LAST_BACKOFF_S, delay) - self.world.age_s(last) if last else 0.0

    def _drop(self, pod: Object) -> None:
        """Deletes a pod of ours without counting it."""
        untrack(self.world, pod)
        self.world.delete(R.POD, pod)

    # ------------------------------------------------------------------ ends and pauses

    def _suspend(self, active: list[Object]) -> None:
        for pod in active:
            self._drop(pod)
        self.status.pop("startTime", None)
        conditions = self.status.setdefault("conditions", [])
        self.world.set_condition(conditions, "Suspended", "True", "JobSuspended", "Job suspended")
        self._write([])

    def _resume(self) -> None:
        conditions = self.status.setdefault("conditions", [])
        if any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions):
            self.world.set_condition(conditions, "Suspended", "False", "JobResumed", "Job resumed")
        self.status.setdefault("startTime", self.world.stamp())

    def _finish(self, kind: str, reason: str, message: str, active: list[Object]) -> None:
        for pod in active:
            self._drop(pod)
        conditions = self.status.setdefault("conditions", [])
        before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        for name in (before, kind):
            self.world.set_condition(conditions, name, "True", reason, message)
        if kind == "Complete":
            self.status["completionTime"] = self.world.stamp()
        self._write([])

    def _write(self, active: list[Object]) -> None:
        """Status first, then finalizers: a pod is counted before it may go."""
        _put(self.status, "active", len(active))
        self.status["ready"] = sum(pod_facts.is_ready(p) for p in active)
        self.status["terminating"] = sum(
            is_deleting(p) and not pod_facts.is_finished(p) for p in self.pods
        )
        if not self.status.get("conditions"):
            self.status.pop("conditions", None)
        self.world.set_status(R.JOB, self.job, self.status)
        for pod in self._ended:
            untrack(self.world, pod)


def untrack(world: World, pod: Object) -> None:
    """Takes the Job controller's finalizer off."""
    if not _is_tracked(pod):
        return
    meta = pod["metadata"]
    left = [f for f in meta["finalizers"] if f != TRACKING]
    patch = {"metadata": {"finalizers": left or None, "uid": meta["uid"]}}
    try:
        made = world.port.patch(R.POD, meta["name"], patch, meta["namespace"])
    except NotFound:
        return
    if made.get("metadata", {}).get("uid") == meta["uid"] and not (
        made["metadata"].get("deletionTimestamp") and not left
    ):
        world.runtime.informer(R.POD).remember(made)


def _job_key(pod: Object) -> tuple[str, ...]:
    ref = owner_of(pod)
    if ref is None or ref["kind"] != "Job":
        return ()
    return (f"{pod['metadata']['namespace']}/{ref['name']}",)


def _is_tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _ended_at(pod: Object) -> str:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return ended["finishedAt"]
    return (pod.get("status") or {}).get("startTime") or ""


def _name(pod: Object) -> str:
    return pod["metadata"]["name"]


def _put(status: Object, field: str, value: int) -> None:
    if value:
        status[field] = value
    else:
        status.pop(field, None)

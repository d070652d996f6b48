"""Stand-in for Kubeflow Trainer (v2.3): a TrainJob becomes a JobSet by its training runtime."""

from __future__ import annotations

import secrets

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from .trainjob_policy import mpi_slots
from .trainjob_runtime import build_jobset
from .world import World, condition, is_deleting, is_true, own_copy, owner_ref, split_key

MANAGER = "trainer.kubeflow.org/trainjob-controller"
_KINDS = {
    "ClusterTrainingRuntime": R.CLUSTER_TRAINING_RUNTIME,
    "TrainingRuntime": R.TRAINING_RUNTIME,
}


class TrainJobOperator:
    name = "trainjob"

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._world = World(runtime)
        self._world.watch(self.name, R.TRAIN_JOB)
        self._world.watch_owned(self.name, R.JOB_SET, R.TRAIN_JOB)
        for resource in _KINDS.values():
            runtime.informer(resource).on_change(self._runtime_changed)

    def _runtime_changed(self, old: Object | None, new: Object | None) -> None:
        """A TrainJob may have been waiting for this runtime."""
        for job in self._runtime.informer(R.TRAIN_JOB):
            meta = job["metadata"]
            if not is_true(job, "Complete"):
                self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}")

    def reconcile(self, key: str) -> float | None:
        job = self._world.get(R.TRAIN_JOB, *split_key(key))
        if job is None or is_deleting(job) or job["spec"].get("managedBy", MANAGER) != MANAGER:
            return None
        status = own_copy(job.get("status") or {})
        wait = None
        finished = is_true(job, "Complete") or is_true(job, "Failed")
        if not finished or _may_recover(job):
            self._reconcile_objects(job, status)
            wait = self._deadline(job, status)
        self._take_status(job, status)
        self._world.set_status(R.TRAIN_JOB, job, status)
        return wait

    def _reconcile_objects(self, job: Object, status: Object) -> None:
        conditions = status.setdefault("conditions", [])
        runtime, problem = self._training_runtime(job)
        if runtime is None:
            self._world.set_condition(
                conditions, "Failed", "True", "TrainingRuntimeNotSupported", problem
            )
            return
        conditions[:] = [c for c in conditions if c["type"] != "Failed"]
        suspend = bool(job["spec"].get("suspend"))
        if suspend:
            self._world.set_condition(conditions, "Suspended", "True", "Suspended", "TrainJob is suspended")  # fmt: skip  # noqa: E501
        elif condition({"status": status}, "Suspended"):
            self._world.set_condition(conditions, "Suspended", "False", "Resumed", "TrainJob is resumed")  # fmt: skip  # noqa: E501
        meta = job["metadata"]
        old = self._world.get(R.JOB_SET, meta["namespace"], meta["name"])
        if old is None:
            self._make_helpers(job, runtime)
            self._world.create(R.JOB_SET, build_jobset(job, runtime))
        elif not is_deleting(old) and bool(old["spec"].get("suspend")) != suspend:
            fresh = own_copy(old)
            fresh["spec"]["suspend"] = suspend
            self._world.update(R.JOB_SET, fresh)

    def _training_runtime(self, job: Object) -> tuple[Object | None, str]:
        ref = job["spec"].get("runtimeRef") or {}
        kind = ref.get("kind") or "ClusterTrainingRuntime"
        resource = _KINDS.get(kind)
        if resource is None:
            return None, f"spec.runtimeRef.kind: {kind!r}: use one of {', '.join(_KINDS)}"
        found = self._world.get(resource, job["metadata"]["namespace"], ref.get("name", ""))
        if found is None:
            text = f"spec.runtimeRef.name: there is no {kind} {ref.get('name')!r}: create it first"
            return None, text
        return found, ""

    def _make_helpers(self, job: Object, runtime: Object) -> None:
        """Keys and host lists that MPI and Flux pods mount."""
        policy = runtime["spec"].get("mlPolicy") or {}
        name = job["metadata"]["name"]
        if "mpi" in policy:
            keys = {"ssh-privatekey": secrets.token_hex(16), "ssh-publickey": secrets.token_hex(16)}
            self._own(job, R.SECRET, f"{name}-mpi-ssh-auth", stringData=keys)
            hosts = "".join(
                f"{host}.{name} slots={mpi_slots(job, policy['mpi'] or {})}\n"
                for host in _hosts(build_jobset(job, runtime), policy["mpi"] or {})
            )
            self._own(job, R.CONFIG_MAP, f"{name}-mpi-hostfile", data={"hostfile": hosts})
        if "flux" in policy:
            self._own(job, R.SECRET, f"{name}-flux-curve", stringData={"curve.cert": name})
            scripts = {"init.sh": "#!/bin/bash\n", "entrypoint.sh": "#!/bin/bash\nexec $1\n"}
            self._own(job, R.CONFIG_MAP, f"{name}-flux-entrypoint", data=scripts)

    def _own(self, job: Object, resource, name: str, **body: object) -> None:
        meta = {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "ownerReferences": [owner_ref(R.TRAIN_JOB, job)],
        }
        made = {"apiVersion": "v1", "kind": resource.kind, "metadata": meta, **body}
        self._world.ensure(resource, made)

    def _deadline(self, job: Object, status: Object) -> float | None:
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is None or job["spec"].get("suspend"):
            return None
        since = job["metadata"]["creationTimestamp"]
        resumed = condition({"status": status}, "Suspended")
        if resumed is not None:
            since = resumed["lastTransitionTime"]
        left = limit - self._world.age_s(since)
        if left > 0:
            return left
        text = "TrainJob exceeded its active deadline"
        self._world.set_condition(status["conditions"], "Failed", "True", "DeadlineExceeded", text)
        meta = job["metadata"]
        jobset = self._world.get(R.JOB_SET, meta["namespace"], meta["name"])
        if jobset is not None:
            self._world.delete(R.JOB_SET, jobset)
        return None

    def _take_status(self, job: Object, status: Object) -> None:
        """Completion, failure and counts come from the JobSet."""
        meta = job["metadata"]
        jobset = self._world.get(R.JOB_SET, meta["namespace"], meta["name"])
        if jobset is not None:
            for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
                found = condition(jobset, theirs)
                if found is not None and found["status"] == "True":
                    conditions = status.setdefault("conditions", [])
                    self._world.set_condition(
                        conditions, ours, "True", found["reason"], found.get("message", "")
                    )
            groups = (jobset.get("status") or {}).get("replicatedJobsStatus")
            if groups:
                status["jobsStatus"] = own_copy(groups)
        if not status.get("conditions"):
            status.pop("conditions", None)


def _may_recover(job: Object) -> bool:
    """A TrainJob that failed for want of its runtime runs once that is there."""
    found = condition(job, "Failed")
    return found is not None and found["reason"] == "TrainingRuntimeNotSupported"


def _hosts(jobset: Object, policy: Object) -> list[str]:
    name = jobset["metadata"]["name"]
    return [
        f"{name}-{group['name']}-0-{i}"
        for group in jobset["spec"]["replicatedJobs"]
        if group["name"] == "node"
        or (group["name"] == "launcher" and policy.get("runLauncherAsNode"))
        for i in range(group["template"]["spec"]["parallelism"])
    ]

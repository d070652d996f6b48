"""How the entrypoint of a RayJob ends: told by its submitter, or by run time and exit code."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts
from kai_ray.sim.run_model import RunModel

from . import ray_names as names
from .rayjob_cluster import mode_of
from .rayjob_submitter import submitter_job
from .world import World, condition


class Outcomes:
    """`run_time`: of entrypoints that no pod shows (HTTPMode, InteractiveMode)."""

    def __init__(self, world: World, run_time: RunModel, seed: int) -> None:
        self._world = world
        self._run_time = run_time
        self._seed = seed

    def of(self, job: Object, status: Object, cluster: Object) -> tuple[int | None, float | None]:
        """The entrypoint's exit code, or None and when to look again."""
        mode = mode_of(job)
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

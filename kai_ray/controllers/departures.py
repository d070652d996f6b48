"""How pods leave: a whole gang by its switch or with its attempt, surplus out of its group.

Every way is safe to take again: what is under way already is found so, and nothing else is done.

1. A workload with a switch that its operator obeys is suspended (suspensions.py).
2. A RayJob without one has its attempt ended (attempts.py).
3. Surplus Ray workers of a cluster that scales itself are taken out of its size first, so that
   KubeRay does not make them again, then deleted.
4. All others are deleted, each by its UID, for whoever made them to make them anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Conflict, Key, NotFound, Object, Resource, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.attempts import Attempts
from kai_ray.controllers.conditions import condition
from kai_ray.controllers.ray_scaling import without_workers
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.controllers.victims import PodRef, uid_of

_TRIES = 3


class Departures:
    def __init__(self, suspensions: Suspensions, attempts: Attempts) -> None:
        self._suspensions = suspensions
        self._attempts = attempts

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._pods = runtime.informer(kinds.POD)
        self._clusters = runtime.informer(kinds.RAY_CLUSTER)

    def as_a_whole(self, key: Key) -> bool:
        """Whether the gang's workload can be ended as one and begins again by itself."""
        group = self._groups.get(key.name, key.namespace)
        if group is None:
            return False
        return self._suspensions.of(group) is not None or self._attempts.of(group) is not None

    def under_way(self, group: Object) -> bool:
        """Whether the gang is told to go as a whole already."""
        return self._suspensions.under_way(group) or self._attempts.under_way(group)

    def whole(
        self,
        group: Object,
        pods: Sequence[PodRef],
        message: str,
        until_s: float,
        grace_s: float | None = None,
    ) -> list[PodRef]:
        """Sends a whole gang away, not to come back before `until_s`; the pods that go.

        With `grace_s` its pods are told to end at once and have so long for it.
        """
        if self.under_way(group):
            return list(pods)
        workload, job = self._suspensions.of(group), self._attempts.of(group)
        if grace_s is not None or (workload is None and job is None):
            gone = self.one_by_one(pods, message, grace_s)
            if workload is None and job is None:
                return gone
        if workload is not None and self._suspend(workload, group, until_s):
            return list(pods)
        if workload is None and job is not None and self._attempts.end(job, group):
            return list(pods)
        return self.one_by_one(pods, message, grace_s)

    def _suspend(self, workload: tuple[Resource, Object], group: Object, until_s: float) -> bool:
        """Switches the workload off as it was seen; one that has changed is looked at again."""
        resource, obj = workload
        now, port = self._runtime.clock.now(), self._runtime.port
        for _ in range(_TRIES):
            write = self._suspensions.suspend((resource, obj), group, until_s, now)
            (answer,) = port.batch([write])
            if not isinstance(answer, ApiError):
                return self._suspensions.suspended(resource, answer, key_of(group))
            if isinstance(answer, NotFound):
                return False
            if not isinstance(answer, Conflict):
                raise answer
            key, uid = key_of(obj), uid_of(obj)
            try:
                obj = port.get(resource, key.name, key.namespace)
            except NotFound:
                return False
            if uid_of(obj) != uid:
                return False  # a namesake made since
        raise Conflict(f"{resource.kind} {obj['metadata']['name']} changes too often to be stopped")

    def surplus(
        self, pods: Sequence[PodRef], message: str, grace_s: float | None = None
    ) -> list[PodRef]:
        """Sends some pods of a gang away while the others stay; those that go."""
        workers: dict[Key, list[Object]] = {}
        for ref in pods:
            pod = self.present(ref)
            labels = (pod["metadata"].get("labels") or {}) if pod is not None else {}
            if pod is not None and labels.get(names.RAY_NODE_TYPE) == "worker":
                cluster = Key(ref.key.namespace, labels.get(names.RAY_CLUSTER, ""))
                workers.setdefault(cluster, []).append(pod)
        for cluster, leaving in workers.items():
            self._shrink(cluster, leaving)
        return self.one_by_one(pods, message, grace_s)

    def _shrink(self, key: Key, leaving: list[Object]) -> None:
        """Takes workers out of the size of a cluster whose size is its autoscaler's to say."""
        cluster = self._clusters.get(key.name, key.namespace)
        for _ in range(_TRIES):
            wanted = without_workers(cluster, leaving, self._there) if cluster else None
            if wanted is None:
                return
            try:
                self._clusters.remember(self._runtime.port.update(kinds.RAY_CLUSTER, wanted))
                return
            except NotFound:
                return
            except Conflict:
                try:
                    cluster = self._runtime.port.get(kinds.RAY_CLUSTER, key.name, key.namespace)
                except NotFound:
                    return
        raise Conflict(f"RayCluster {key.name} changes too often to be made smaller")

    def _there(self, namespace: str, name: str) -> bool:
        return self._pods.get(name, namespace) is not None

    def one_by_one(
        self, pods: Sequence[PodRef], message: str, grace_s: float | None = None
    ) -> list[PodRef]:
        """Each pod by its UID: a namesake made since is not meant."""
        alive = [(ref, pod) for ref in pods if (pod := self.present(ref)) is not None]
        if not alive:
            return []
        self.tell_pods([pod for _, pod in alive], message)
        port, gone = self._runtime.port, []
        more = {} if grace_s is None else {"grace_s": max(1, round(grace_s))}
        deletes = [
            Write(port.delete, (kinds.POD, *reversed(ref.key)), {"uid": ref.uid, **more})
            for ref, _ in alive
        ]
        failed: ApiError | None = None
        for (ref, _), outcome in zip(alive, port.batch(deletes), strict=True):
            if isinstance(outcome, NotFound | Conflict):
                continue
            if isinstance(outcome, ApiError):
                failed = outcome
                continue
            gone.append(ref)
            if isinstance(outcome, dict) and outcome.get("kind", "Pod") == "Pod":
                self._pods.remember(outcome)
        if failed is not None:
            self._runtime.enqueue("scheduler", "again", 1.0)
        return gone

    def present(self, ref: PodRef) -> Object | None:
        """The pod that is meant, if it is still there and not leaving already."""
        pod = self._pods.get(ref.key.name, ref.key.namespace)
        if pod is None or uid_of(pod) != ref.uid or pod["metadata"].get("deletionTimestamp"):
            return None
        return pod

    def tell_pods(self, pods: Sequence[Object], message: str, going: bool = True) -> None:
        """The condition DisruptionTarget, by which operators and users know an eviction."""
        now = rfc3339(self._runtime.clock.now())
        reason = "PreemptionByScheduler" if going else "Withdrawn"
        made = condition("DisruptionTarget", going, reason, message, now=now)
        self._runtime.port.batch(
            [
                Write(
                    self._runtime.port.patch,
                    (kinds.POD, pod["metadata"]["name"], _said(pod, made), _space(pod)),
                    {"patch_type": "strategic", "subresource": "status"},
                )
                for pod in pods
            ]
        )


def _said(pod: Object, made: Object) -> Object:
    return {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [made]}}


def _space(pod: Object) -> str:
    return pod["metadata"].get("namespace") or ""

"""RayJobs that KubeRay does not let us suspend: gangs of last resort, and how their attempt ends.

KubeRay suspends a RayJob only with `shutdownAfterJobFinishes` and a cluster of its own. What it
always knows is another attempt: told `Retrying`, it deletes the RayCluster and the submitter of
this one, forgets both and begins anew, and counts no failure. So an attempt ends in three writes:

1. the RayJob says which RayCluster we ended, and since when it has been in the queue;
2. its status says `Retrying`, on the very state that we have read;
3. the RayCluster goes, so that its room is free though KubeRay be slow or refuse the second.

Where the status cannot be written the third is all: KubeRay makes the cluster again and submits the
job once more (HTTPMode), or the attempt fails and `backoffLimit` decides. A restart reads the mark
and goes on. Source: KubeRay 1.6, its state machine of RayJobs.

A RayJob with `clusterSelector` lives in a cluster of somebody else. That cluster has a switch, but
what runs inside is lost with it, so it is of last resort as well; its jobs begin another attempt.
"""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Conflict, Invalid, Key, NotFound, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.events import Events
from kai_ray.controllers.owners import controller, top_owner
from kai_ray.controllers.suspend import has_ended, lost_if_evicted, selected_cluster
from kai_ray.encode import Encoder

_RETRYING = "Retrying"
#: States in which an attempt goes on, or ended through us. In others KubeRay is at it already.
_LIVE = ("Initializing", "Waiting", "Running", "Failed")
_OVER = ("Complete", "ValidationFailed")
_IN_A_CLUSTER = ("Waiting", "Running", "Failed")
_LOOK_AGAIN_S = 1.0
_BY_OWNER, _BY_CLUSTER = "attempts-owner", "attempts-cluster"
_CAUSE = "attempt"


class Attempts:
    """Keys: "namespace/name" of a RayJob."""

    name = "attempts"

    def __init__(self, encoder: Encoder, events: Events) -> None:
        self._encoder = encoder
        self._events = events
        self._lost: dict[Key, Object] = {}  # RayJobs that cannot be suspended

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.add_index(_BY_OWNER, _owners)
        self._groups.on_change(self._group_seen)
        self._clusters = runtime.informer(kinds.RAY_CLUSTER)
        self._jobs = runtime.informer(kinds.RAY_JOB)
        self._jobs.add_index(_BY_CLUSTER, _selects)
        self._jobs.on_change(self._seen)

    def _seen(self, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        assert obj is not None
        key = key_of(obj)
        if new is not None and lost_if_evicted(new):
            self._lost[key] = new
        else:
            self._lost.pop(key, None)
        if any(o is not None and names.ATTEMPT_ENDED in _annotations(o) for o in (old, new)):
            self._mark(key)

    def _group_seen(self, old: Object | None, new: Object | None) -> None:
        """Gang and RayJob may be seen in any order."""
        for kind, key in _owner_keys(new) if new is not None else ():
            job = self._jobs.get(key.name, key.namespace) if kind == "RayJob" else None
            if job is not None and names.ATTEMPT_ENDED in _annotations(job):
                self._mark(key)

    def _mark(self, key: Key) -> None:
        """At once, so that no decision counts on pods that are on their way out."""
        job = self._jobs.get(key.name, key.namespace)
        ended = _ended_cluster(job) if job is not None else None
        if job is not None and ended is not None:
            self._leave(job, ended[0], True)
        self._runtime.enqueue(self.name, _text(key))

    # ------------------------------------------------------------------ who is of last resort

    def last_resort(self) -> set[Key]:
        """Gangs that lose an attempt when they are evicted."""
        found: set[Key] = set()
        for key, job in self._lost.items():
            selected = selected_cluster(job)
            text = f"RayCluster {key.namespace}/{selected}" if selected else f"RayJob {_text(key)}"
            found.update(key_of(g) for g in self._groups.by_index(_BY_OWNER, text))
        return found

    def of(self, group: Object) -> Object | None:
        """The RayJob whose present attempt has this gang, if ending it is the way to evict it."""
        for kind, key in _owner_keys(group):
            job = self._lost.get(key) if kind == "RayJob" else None
            if job is not None and not selected_cluster(job) and _cluster_name(job):
                return job
        return None

    def under_way(self, group: Object) -> bool:
        """Whether the attempt that this gang belongs to is being ended already."""
        for kind, key in _owner_keys(group):
            job = self._jobs.get(key.name, key.namespace) if kind == "RayJob" else None
            if job is not None and _ended_cluster(job) is not None and self._is_of(group, job):
                return True
        return False

    def _is_of(self, group: Object, job: Object) -> bool:
        """Whether the gang is that of the cluster that was ended: each attempt has its own."""
        ended = _ended_cluster(job)
        return ended is not None and group["metadata"]["name"].endswith(ended[1] or "\0")

    # ------------------------------------------------------------------ ending one

    def end(self, job: Object, group: Object) -> bool:
        """Ends the attempt; False where it is not the one that was meant any more."""
        key, cluster = key_of(job), _cluster_name(job)
        found = self._clusters.get(cluster, key.namespace)
        uid = found["metadata"].get("uid", "") if found is not None else ""
        known = _annotations(job).get(names.QUEUED_SINCE)
        since = _annotations(group).get(names.QUEUED_SINCE)
        notes = {
            names.ATTEMPT_ENDED: f"{cluster} {uid}",
            names.QUEUED_SINCE: known or since or group["metadata"].get("creationTimestamp"),
            names.SUSPENDED_AT: rfc3339(self._runtime.clock.now()),
            names.EVICTION_NOTICE: None,
        }
        patch = {"metadata": {"uid": job["metadata"].get("uid"), "annotations": notes}}
        try:
            job = self._runtime.port.patch(kinds.RAY_JOB, key.name, patch, key.namespace)
        except (NotFound, Conflict, Invalid):  # a namesake: API servers say either of the last two
            return False
        self._jobs.remember(job)
        self._leave(job, cluster, True)
        self._carry_on(job)
        self._runtime.enqueue(self.name, _text(key), _LOOK_AGAIN_S)
        return True

    def begin_again(self, cluster: Object) -> None:
        """What ran inside a cluster of somebody else that is suspended is submitted anew."""
        key = key_of(cluster)
        for job in self._jobs.by_index(_BY_CLUSTER, _text(key)):
            if _state(job) in _IN_A_CLUSTER and not has_ended(job):
                self._retry(job)

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        job = self._jobs.get(name, namespace)
        ended = _ended_cluster(job) if job is not None else None
        if job is None or ended is None:
            return None
        cluster, uid = ended
        there = self._clusters.get(cluster, namespace)
        gone = there is None or there["metadata"].get("uid") != uid
        over = _cluster_name(job) != cluster or _state(job) in _OVER
        if gone and (over or there is not None):
            self._leave(job, cluster, False)
            self._forget(job)
            return None
        if not over:
            self._carry_on(job)
        return _LOOK_AGAIN_S

    def _carry_on(self, job: Object) -> None:
        """Whatever of the second and third write has not happened yet."""
        ended = _ended_cluster(job)
        if ended is None:
            return
        if _state(job) in _LIVE:
            self._retry(job)
        cluster, uid = ended
        found = self._clusters.get(cluster, key_of(job).namespace)
        if found is None or found["metadata"].get("uid") != uid:
            return
        if found["metadata"].get("deletionTimestamp"):
            return
        write = Write(
            self._runtime.port.delete,
            (kinds.RAY_CLUSTER, cluster, key_of(job).namespace),
            {"uid": uid},
        )
        (answer,) = self._runtime.port.batch([write])
        if isinstance(answer, ApiError) and not isinstance(answer, NotFound | Conflict):
            raise answer

    def _retry(self, job: Object) -> None:
        """Tells KubeRay to begin another attempt; a state that has moved since is left to it."""
        key = key_of(job)
        version = job["metadata"].get("resourceVersion")
        patch = {
            "metadata": {"resourceVersion": version},
            "status": {"jobDeploymentStatus": _RETRYING},
        }
        write = Write(
            self._runtime.port.patch,
            (kinds.RAY_JOB, key.name, patch, key.namespace),
            {"subresource": "status"},
        )
        (answer,) = self._runtime.port.batch([write])
        if isinstance(answer, NotFound | Conflict):
            return
        if isinstance(answer, ApiError):
            text = (
                f"another attempt could not be asked for ({answer.message}): its backoffLimit "
                "decides whether it begins again"
            )
            uid = job["metadata"].get("uid") or ""
            self._events.warn(kinds.RAY_JOB, key, uid, "RetryRefused", text)
            return
        self._jobs.remember(answer)

    def _leave(self, job: Object, cluster: str, leaving: bool) -> None:
        """Pods of an attempt that is over are not counted on, those of the next one are."""
        ended = _ended_cluster(job)
        for group in self._groups.by_index(_BY_OWNER, f"RayJob {_text(key_of(job))}"):
            if not leaving or ended is None or self._is_of(group, job):
                self._encoder.set_leaving(key_of(group), leaving, _CAUSE)
        self._runtime.enqueue("scheduler", "cycle")

    def _forget(self, job: Object) -> None:
        key = key_of(job)
        patch = {"metadata": {"annotations": {names.ATTEMPT_ENDED: None}}}
        try:
            answer = self._runtime.port.patch(kinds.RAY_JOB, key.name, patch, key.namespace)
        except NotFound:
            return
        self._jobs.remember(answer)


def _owners(group: Object) -> tuple[str, ...]:
    return tuple(f"{kind} {_text(key)}" for kind, key in _owner_keys(group))


def _owner_keys(group: Object) -> tuple[tuple[str, Key], ...]:
    found = (top_owner(group), controller(group))
    return tuple(dict.fromkeys((o.resource.kind, o.key) for o in found if o is not None))


def _selects(job: Object) -> tuple[str, ...]:
    selected = selected_cluster(job)
    return (f"{job['metadata'].get('namespace') or ''}/{selected}",) if selected else ()


def _ended_cluster(job: Object) -> tuple[str, str] | None:
    """Name and UID of the RayCluster that we ended."""
    text = _annotations(job).get(names.ATTEMPT_ENDED)
    if not text:
        return None
    name, _, uid = text.partition(" ")
    return name, uid


def _cluster_name(job: Object) -> str:
    return (job.get("status") or {}).get("rayClusterName") or ""


def _state(job: Object) -> str:
    return (job.get("status") or {}).get("jobDeploymentStatus") or ""


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"

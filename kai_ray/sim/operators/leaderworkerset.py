"""Stand-in for LeaderWorkerSet 0.8: groups of a leader and its workers, made by StatefulSets.

    LeaderWorkerSet -> StatefulSet of leaders -> leader pod -> StatefulSet of its workers -> pods

What its webhook adds to the pods: leaderworkerset_pods.py.
"""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Conflict, NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from . import leaderworkerset_pods as pods_of
from .leaderworkerset_pods import SET_NAME
from .world import World, is_deleting, own_copy, owner_ref, split_key

_CONDITIONS = {
    "Available": ("AllGroupsReady", "All replicas are ready"),
    "Progressing": ("GroupsProgressing", "Replicas are progressing"),
    "UpdateInProgress": ("GroupsUpdating", "Rolling Upgrade is in progress"),
}
_GONE_AFTER_S = 1.0


class LeaderWorkerSetOperator:
    name = "leaderworkerset"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.LEADER_WORKER_SET)

        def of_set(old: Object | None, new: Object | None) -> None:
            meta = (new or old or {})["metadata"]
            found = (meta.get("labels") or {}).get(SET_NAME)
            if found:
                runtime.enqueue(self.name, f"{meta['namespace']}/{found}")

        for resource in (R.STATEFUL_SET, R.POD):
            runtime.informer(resource).on_change(of_set)

    def reconcile(self, key: str) -> float | None:
        found = self._world.get(R.LEADER_WORKER_SET, *split_key(key))
        if found is None or is_deleting(found):
            return None
        if not pods_of.own_subdomains(found):
            self._service(
                found, found["metadata"]["name"], {}, owner_ref(R.LEADER_WORKER_SET, found)
            )
        leaders = self._leaders(found)
        again = [self._group(found, leader) for leader in leaders]
        self._report(found, leaders)
        return min((a for a in again if a is not None), default=None)

    # ------------------------------------------------------------------ what it makes

    def _leaders(self, found: Object) -> list[Object]:
        """Brings the leaders' StatefulSet up to date; returns the leaders that are there."""
        wanted = pods_of.leader_set(found)
        meta = wanted["metadata"]
        meta["ownerReferences"] = [owner_ref(R.LEADER_WORKER_SET, found)]
        existing = self._world.get(R.STATEFUL_SET, meta["namespace"], meta["name"])
        if existing is None:
            self._world.create(R.STATEFUL_SET, wanted)
            return []
        if _differs(existing, wanted):
            fresh = own_copy(existing)
            fresh["metadata"]["labels"] = meta["labels"]
            fresh["spec"] |= {k: wanted["spec"][k] for k in ("replicas", "template")}
            self._world.update(R.STATEFUL_SET, fresh)
        return self._world.owned(R.POD, existing)

    def _group(self, found: Object, leader: Object) -> float | None:
        """The workers of one leader."""
        meta = leader["metadata"]
        workers = self._world.get(R.STATEFUL_SET, meta["namespace"], meta["name"])
        if is_deleting(leader):
            return None
        if workers is not None:
            if self._world.owned(R.STATEFUL_SET, leader):
                self._restart(found, leader, workers)
                return None
            return _GONE_AFTER_S  # of a leader of the same name that is gone
        if pods_of.own_subdomains(found):
            selector = {pods_of.GROUP_INDEX: meta["labels"][pods_of.GROUP_INDEX]}
            self._service(found, meta["name"], selector, owner_ref(R.POD, leader))
        spec = found["spec"]
        if pods_of.size_of(found) == 1:
            return None
        if spec.get("startupPolicy") == "LeaderReady" and not pod_facts.is_ready(leader):
            return None
        around = (found["metadata"].get("annotations") or {}).get(pods_of.EXCLUSIVE)
        place = self._place(leader, around) if around else {}
        if place is None:
            return None
        wanted = pods_of.worker_set(found, leader, place)
        wanted["metadata"]["ownerReferences"] = [owner_ref(R.POD, leader)]
        self._world.create(R.STATEFUL_SET, wanted)
        return None

    def _place(self, leader: Object, around: str) -> dict[str, str] | None:
        """The leader's domain, for its workers; None while it has none."""
        node = self._world.get(R.NODE, "", leader["spec"].get("nodeName") or "")
        value = ((node or {}).get("metadata", {}).get("labels") or {}).get(around)
        return {around: value} if value else None

    def _restart(self, found: Object, leader: Object, workers: Object) -> None:
        """A group starts anew as a whole when one of its pods went or was restarted."""
        policy = found["spec"]["leaderWorkerTemplate"].get("restartPolicy")
        if policy not in (None, "RecreateGroupOnPodRestart"):
            return
        members = [leader, *self._world.owned(R.POD, workers)]
        if any(is_deleting(p) or _restarted(p) for p in members):
            self._delete_with_workers(leader)

    def _delete_with_workers(self, leader: Object) -> None:
        """The leader's name is free again only when its workers are gone."""
        meta = leader["metadata"]
        try:
            self._world.port.delete(
                R.POD,
                meta["name"],
                meta["namespace"],
                propagation="Foreground",
                uid=meta["uid"],
            )
        except (NotFound, Conflict):
            return

    def _service(self, found: Object, name: str, selector: dict[str, str], owner: Object) -> None:
        own = {SET_NAME: found["metadata"]["name"]}
        meta = {
            "name": name,
            "namespace": found["metadata"]["namespace"],
            "labels": own,
            "ownerReferences": [owner],
        }
        spec = {
            "clusterIP": "None",
            "selector": own | selector,
            "publishNotReadyAddresses": True,
        }
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
        self._world.ensure(R.SERVICE, service)

    # ------------------------------------------------------------------ what it says

    def _report(self, found: Object, leaders: list[Object]) -> None:
        revision, size = pods_of.revision(found), pods_of.size_of(found)
        ready = updated = 0
        for leader in leaders:
            meta = leader["metadata"]
            workers = self._world.get(R.STATEFUL_SET, meta["namespace"], meta["name"])
            if size > 1 and workers is None:
                continue
            parts = [leader] if workers is None else [leader, workers]
            updated += all(p["metadata"]["labels"].get(pods_of.REVISION) == revision for p in parts)
            running = size == 1 or _all_ready(workers, size - 1)
            ready += running and pod_facts.is_ready(leader)
        replicas = pods_of.replicas_of(found)
        status = own_copy(found.get("status") or {})
        status |= {"replicas": len(leaders), "readyReplicas": ready, "updatedReplicas": updated}
        status["hpaPodSelector"] = (
            f"{SET_NAME}={found['metadata']['name']},{pods_of.WORKER_INDEX}=0"
        )
        kind = "Available" if ready == replicas else "Progressing"
        if updated < len(leaders) and found["metadata"].get("generation", 1) > 1:
            kind = "UpdateInProgress"
        conditions = status.setdefault("conditions", [])
        for other in _CONDITIONS:
            told = any(c["type"] == other for c in conditions)
            if other == kind or told:
                reason, message = _CONDITIONS[other]
                true = "True" if other == kind else "False"
                self._world.set_condition(conditions, other, true, reason, message)
        self._world.set_status(R.LEADER_WORKER_SET, found, status)


def _all_ready(workers: Object | None, count: int) -> bool:
    return ((workers or {}).get("status") or {}).get("readyReplicas", 0) == count


def _restarted(pod: Object) -> bool:
    status = pod.get("status") or {}
    if status.get("phase") not in ("Pending", "Running"):
        return False
    containers = (
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    )
    return any(c.get("restartCount", 0) > 0 for c in containers)


def _differs(existing: Object, wanted: Object) -> bool:
    old, new = existing["metadata"].get("labels") or {}, wanted["metadata"]["labels"]
    if existing["spec"].get("replicas") != wanted["spec"]["replicas"]:
        return True
    return old.get(pods_of.REVISION) != new[pods_of.REVISION]

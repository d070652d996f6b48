"""Stand-in for the Deployment controller: one ReplicaSet a template, rolled over step by step."""

from __future__ import annotations

import json
import math

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from .world import World, is_deleting, own_copy, owner_ref, split_key, suffix

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class DeploymentOperator:
    name = "deployment"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.DEPLOYMENT)
        self._world.watch_owned(self.name, R.REPLICA_SET, R.DEPLOYMENT)

    def reconcile(self, key: str) -> float | None:
        deployment = self._world.get(R.DEPLOYMENT, *split_key(key))
        if deployment is None or is_deleting(deployment):
            return None
        sets = self._world.owned(R.REPLICA_SET, deployment)
        code = _hash(deployment["spec"]["template"])
        current = next((s for s in sets if s["metadata"]["labels"].get(HASH) == code), None)
        if current is None:
            first = not sets or _recreates(deployment)
            wanted = deployment["spec"].get("replicas", 1) if first else 0
            if _recreates(deployment) and any(_count(s, "replicas") for s in sets):
                wanted = 0
            made = self._world.create(
                R.REPLICA_SET, self._new_set(deployment, code, len(sets) + 1, wanted)
            )
            if made is None:
                return None
            current = made
            sets = [*sets, made]
        if not deployment["spec"].get("paused"):
            self._roll(deployment, current, [s for s in sets if s is not current])
        self._report(deployment, current, sets)
        return None

    def _new_set(self, deployment: Object, code: str, revision: int, replicas: int) -> Object:
        meta, spec = deployment["metadata"], deployment["spec"]
        template = own_copy(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[HASH] = code
        selector = own_copy(spec["selector"])
        selector.setdefault("matchLabels", {})[HASH] = code
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{code}",
                "namespace": meta["namespace"],
                "labels": dict(labels),
                "annotations": {**(meta.get("annotations") or {}), REVISION: str(revision)},
                "ownerReferences": [owner_ref(R.DEPLOYMENT, deployment)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        }

    def _roll(self, deployment: Object, current: Object, old: list[Object]) -> None:
        """Moves replicas from old sets to the current one within surge and unavailability."""
        wanted = deployment["spec"].get("replicas", 1)
        old = [s for s in old if s["spec"].get("replicas") or _count(s, "replicas")]
        if _recreates(deployment):
            for s in old:
                self._scale(s, 0)
            if not old:
                self._scale(current, wanted)
            return
        if not old:
            self._scale(current, wanted)
            return
        rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
        missing = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        surge = surge or (0 if missing else 1)
        total = sum(s["spec"].get("replicas", 0) for s in (current, *old))
        have = current["spec"].get("replicas", 0)
        grow = max(0, min(wanted - have, wanted + surge - total))
        # A set that was just told to shrink still reports the pods it is about to lose.
        ready = sum(_ready(s) for s in (current, *old))
        shrink = max(0, ready - (wanted - missing))
        for s in old:
            broken = s["spec"].get("replicas", 0) - _ready(s)
            step = min(s["spec"].get("replicas", 0), shrink + max(0, broken))
            shrink -= min(shrink, step)
            self._scale(s, s["spec"].get("replicas", 0) - step)
        self._scale(current, have + grow)

    def _scale(self, found: Object, replicas: int) -> None:
        if found["spec"].get("replicas", 0) == replicas:
            return
        fresh = own_copy(found)
        fresh["spec"]["replicas"] = replicas
        self._world.update(R.REPLICA_SET, fresh)

    def _report(self, deployment: Object, current: Object, sets: list[Object]) -> None:
        wanted = deployment["spec"].get("replicas", 1)
        ready = sum(_count(s, "readyReplicas") for s in sets)
        status: Object = {
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "conditions": own_copy((deployment.get("status") or {}).get("conditions") or []),
        }
        for field, value in (
            ("replicas", sum(_count(s, "replicas") for s in sets)),
            ("updatedReplicas", _count(current, "replicas")),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("unavailableReplicas", max(0, wanted - ready)),
        ):
            if value:
                status[field] = value
        enough = "True" if ready >= wanted else "False"
        reason = "MinimumReplicasAvailable" if ready >= wanted else "MinimumReplicasUnavailable"
        self._world.set_condition(status["conditions"], "Available", enough, reason)
        done = "NewReplicaSetAvailable" if ready >= wanted else "ReplicaSetUpdated"
        self._world.set_condition(status["conditions"], "Progressing", "True", done)
        self._world.set_status(R.DEPLOYMENT, deployment, status)


def _hash(template: Object) -> str:
    return suffix(json.dumps(template, sort_keys=True), length=10)


def _recreates(deployment: Object) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _count(found: Object, field: str) -> int:
    return (found.get("status") or {}).get(field, 0)


def _ready(found: Object) -> int:
    return min(_count(found, "readyReplicas"), found["spec"].get("replicas", 0))


def _share(value: int | str, of: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * of / 100
        return math.ceil(part) if up else math.floor(part)
    return int(value)

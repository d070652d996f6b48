"""Stand-in for the StatefulSet controller: ordinals in order, claims of their own."""

from __future__ import annotations

import json

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from . import leaderworkerset_pods
from .podset import pod_of
from .world import World, is_deleting, own_copy, owner_ref, split_key, suffix

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"


class StatefulSetOperator:
    name = "statefulset"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.STATEFUL_SET)
        self._world.watch_owned(self.name, R.POD, R.STATEFUL_SET)

    def reconcile(self, key: str) -> float | None:
        found = self._world.get(R.STATEFUL_SET, *split_key(key))
        if found is None or is_deleting(found):
            return None
        spec = found["spec"]
        wanted = spec.get("replicas", 1)
        first = (spec.get("ordinals") or {}).get("start", 0)
        in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        pods = {p["metadata"]["name"]: p for p in self._world.owned(R.POD, found)}
        self._grow(found, pods, first, wanted, in_order)
        self._shrink(found, pods, first, wanted, in_order)
        self._roll(found, pods)
        left = self._world.owned(R.POD, found)
        ready = sum(pod_facts.is_ready(p) for p in left)
        status: Object = {
            "observedGeneration": found["metadata"].get("generation", 1),
            "replicas": len(left),
            "currentReplicas": len(left),
            "availableReplicas": ready,
        }
        if ready:
            status["readyReplicas"] = ready
        self._world.set_status(R.STATEFUL_SET, found, status)
        return None

    def _grow(
        self, found: Object, pods: dict[str, Object], first: int, wanted: int, in_order: bool
    ) -> None:
        name = found["metadata"]["name"]
        for ordinal in range(first, first + wanted):
            pod = pods.get(f"{name}-{ordinal}")
            if pod is None:
                self._ensure_claims(found, ordinal)
                pod = self._world.create(R.POD, self._pod(found, ordinal))
            elif pod_facts.is_finished(pod) and not is_deleting(pod):
                self._world.delete(R.POD, pod)
            if in_order and (pod is None or not pod_facts.is_ready(pod) or is_deleting(pod)):
                return

    def _shrink(
        self, found: Object, pods: dict[str, Object], first: int, wanted: int, in_order: bool
    ) -> None:
        """Removes ordinals beyond the count, the highest first."""
        surplus = [
            p
            for p in pods.values()
            if not first <= _ordinal(p["metadata"]["name"]) < first + wanted
        ]
        surplus.sort(key=lambda p: -_ordinal(p["metadata"]["name"]))
        for pod in surplus[: 1 if in_order else len(surplus)]:
            self._world.delete(R.POD, pod)

    def _roll(self, found: Object, pods: dict[str, Object]) -> None:
        """Replaces one pod of an older template at a time, the highest ordinal first."""
        update = found["spec"].get("updateStrategy") or {}
        whole = len(pods) >= found["spec"].get("replicas", 1)
        if not whole or update.get("type", "RollingUpdate") != "RollingUpdate":
            return
        from_ordinal = (update.get("rollingUpdate") or {}).get("partition", 0)
        revision = _revision(found)
        for name in sorted(pods, key=_ordinal, reverse=True):
            pod = pods[name]
            if _ordinal(name) < from_ordinal:
                return
            if pod["metadata"]["labels"].get(REVISION) != revision:
                self._world.delete(R.POD, pod)
                return
            if not pod_facts.is_ready(pod) or is_deleting(pod):
                return

    def _ensure_claims(self, found: Object, ordinal: int) -> None:
        meta = found["metadata"]
        for template in found["spec"].get("volumeClaimTemplates") or ():
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    **(own_copy(template.get("metadata") or {})),
                    "name": f"{template['metadata']['name']}-{meta['name']}-{ordinal}",
                    "namespace": meta["namespace"],
                },
                "spec": own_copy(template["spec"]),
            }
            self._world.ensure(R.PVC, claim)

    def _pod(self, found: Object, ordinal: int) -> Object:
        meta, spec = found["metadata"], found["spec"]
        name = f"{meta['name']}-{ordinal}"
        template = own_copy(spec["template"])
        template["spec"]["hostname"] = name
        if spec.get("serviceName"):
            template["spec"]["subdomain"] = spec["serviceName"]
        for claim in spec.get("volumeClaimTemplates") or ():
            volume = claim["metadata"]["name"]
            template["spec"].setdefault("volumes", []).append(
                {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
            )
        pod = pod_of(
            template,
            meta["namespace"],
            name=name,
            labels={POD_NAME: name, POD_INDEX: str(ordinal), REVISION: _revision(found)},
            owner=owner_ref(R.STATEFUL_SET, found),
        )
        pod["metadata"]["generateName"] = f"{meta['name']}-"
        leaderworkerset_pods.complete(pod)  # on a real cluster its webhook does
        return pod


def _ordinal(pod_name: str) -> int:
    return int(pod_name.rpartition("-")[2])


def _revision(found: Object) -> str:
    template = json.dumps(found["spec"]["template"], sort_keys=True)
    return f"{found['metadata']['name']}-{suffix(template, length=10)}"

"""Stand-in for the ReplicaSet controller."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .podset import is_active, pod_of
from .world import BURST, World, is_deleting, owner_ref, split_key


class ReplicaSetOperator:
    name = "replicaset"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.REPLICA_SET)
        self._world.watch_owned(self.name, R.POD, R.REPLICA_SET)

    def reconcile(self, key: str) -> float | None:
        found = self._world.get(R.REPLICA_SET, *split_key(key))
        if found is None or is_deleting(found):
            return None
        pods = [p for p in self._world.owned(R.POD, found) if is_active(p)]
        wanted = found["spec"].get("replicas", 1)
        meta = found["metadata"]
        for _ in range(min(wanted - len(pods), BURST)):
            made = self._world.create(
                R.POD,
                pod_of(
                    found["spec"]["template"],
                    meta["namespace"],
                    generate_name=f"{meta['name']}-",
                    owner=owner_ref(R.REPLICA_SET, found),
                ),
            )
            if made is not None:
                pods.append(made)
        for pod in sorted(pods, key=_cost)[: max(0, len(pods) - wanted)]:
            self._world.delete(R.POD, pod)
            pods.remove(pod)
        self._world.set_status(R.REPLICA_SET, found, replica_status(found, pods))
        return None


def _cost(pod: Object) -> tuple[bool, bool]:
    """What goes first when a set shrinks: unbound, then unready pods."""
    return bool(pod["spec"].get("nodeName")), pod_facts.is_ready(pod)


def replica_status(obj: Object, pods: list[Object]) -> Object:
    """Counts with Go's rule: zero counts are left out, `replicas` is always there."""
    status: Object = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": len(pods),
    }
    ready = sum(pod_facts.is_ready(p) for p in pods)
    if pods:
        status["fullyLabeledReplicas"] = len(pods)
    if ready:
        status["readyReplicas"] = status["availableReplicas"] = ready
    return status

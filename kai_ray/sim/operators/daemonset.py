"""Stand-in for the DaemonSet controller: one pod on each node that takes it."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from .podset import pod_of
from .world import World, is_deleting, own_copy, owner_ref, split_key

#: Taints that every daemon's pod bears.
_BORNE = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure")


class DaemonSetOperator:
    """Pins each pod to its node by affinity, as the real one does; a scheduler binds it."""

    name = "daemonset"

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._world = World(runtime)
        self._world.watch(self.name, R.DAEMON_SET)
        self._world.watch_owned(self.name, R.POD, R.DAEMON_SET)
        runtime.informer(R.NODE).on_change(self._node_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if (
            old is not None
            and new is not None
            and old["metadata"].get("labels") == new["metadata"].get("labels")
        ):
            return
        for found in self._runtime.informer(R.DAEMON_SET):
            meta = found["metadata"]
            self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}")

    def reconcile(self, key: str) -> float | None:
        found = self._world.get(R.DAEMON_SET, *split_key(key))
        if found is None or is_deleting(found):
            return None
        nodes = {
            n["metadata"]["name"]: n
            for n in self._runtime.informer(R.NODE)
            if _takes(n, found["spec"]["template"]["spec"])
        }
        pods = self._world.owned(R.POD, found)
        have: dict[str, Object] = {}
        for pod in pods:
            node = _target(pod)
            if node not in nodes or pod_facts.is_finished(pod):
                self._world.delete(R.POD, pod)
            else:
                have[node] = pod
        for node in sorted(nodes.keys() - have.keys()):
            self._world.create(R.POD, self._pod(found, node))
        ready = sum(pod_facts.is_ready(p) for p in have.values())
        status = {
            "observedGeneration": found["metadata"].get("generation", 1),
            "desiredNumberScheduled": len(nodes),
            "currentNumberScheduled": len(have),
            "numberReady": ready,
            "numberMisscheduled": 0,
        }
        self._world.set_status(R.DAEMON_SET, found, status)
        return None

    def _pod(self, found: Object, node: str) -> Object:
        meta = found["metadata"]
        template = own_copy(found["spec"]["template"])
        spec = template["spec"]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec.setdefault("affinity", {})["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": required
        }
        spec.setdefault("tolerations", []).extend(
            {"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in _BORNE
        )
        return pod_of(
            template,
            meta["namespace"],
            generate_name=f"{meta['name']}-",
            owner=owner_ref(R.DAEMON_SET, found),
        )


def _target(pod: Object) -> str:
    """The node that the pod is pinned to."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                return field["values"][0]
    return pod["spec"].get("nodeName", "")


def _takes(node: Object, pod_spec: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod_spec.get("nodeSelector") or {}
    if any(labels.get(k) != v for k, v in wanted.items()):
        return False
    borne = {
        t.get("key") for t in pod_spec.get("tolerations") or () if t.get("operator") == "Exists"
    }
    hard = [t for t in node["spec"].get("taints") or () if t["effect"] != "PreferNoSchedule"]
    return None in borne or all(
        t["key"] in borne or t["key"].startswith("node.kubernetes.io/") for t in hard
    )

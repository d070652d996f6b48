"""A scheduler for tests of the simulated cluster alone: first node with room, pod by pod."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts


class FirstFit:
    name = "first-fit"

    def setup(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.pods = runtime.informer(R.POD)
        self.nodes = runtime.informer(R.NODE)
        self.pods.on_change(self.changed)
        self.nodes.on_change(self.changed)

    def changed(self, old: Object | None, new: Object | None) -> None:
        self.runtime.enqueue(self.name, "all")

    def reconcile(self, key: str) -> float | None:
        free = {
            n["metadata"]["name"]: pod_facts.allocatable(n)
            for n in sorted(self.nodes, key=lambda n: n["metadata"]["name"])
            if not n["spec"].get("taints")
        }
        for pod in self.pods:
            node = pod["spec"].get("nodeName")
            if node in free and not pod_facts.is_finished(pod):
                for name, value in pod_facts.requests(pod).items():
                    free[node][name] = free[node].get(name, 0) - value
        for pod in self.pods:
            meta = pod["metadata"]
            if pod["spec"].get("nodeName") or meta.get("deletionTimestamp"):
                continue
            wanted = pod_facts.requests(pod)
            for name, room in free.items():
                if all(room.get(k, 0) >= v for k, v in wanted.items()):
                    self.runtime.port.bind(meta["namespace"], meta["name"], name)
                    for k, v in wanted.items():
                        room[k] -= v
                    break
        return None

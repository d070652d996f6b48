"""Pods leave nodes whose NoExecute taints they do not bear, or bear only for a time."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Conflict, NotFound, Object
from kai_ray.cluster.runtime import Runtime

from . import pod_facts
from .cluster_file import ClusterConfig
from .kubelet import BY_NODE
from .node_health import UNREACHABLE, down_since

Taint = tuple[str, str]


class TaintEviction:
    """As the taint manager of Kubernetes; also what empties a node that stopped answering."""

    name = "taint-eviction"

    def __init__(self, config: ClusterConfig) -> None:
        self._after_s = config.kubelet.evict_after_seconds
        #: Since when each node has had each taint.
        self._since: dict[str, dict[Taint, float]] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(R.POD)
        self._nodes = runtime.informer(R.NODE)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        name = obj["metadata"]["name"]
        known = self._since.pop(name, {})
        wanted = _no_execute(new) if new is not None else []
        if wanted:
            now = self._runtime.clock.now()
            self._since[name] = {t: known.get(t, now) for t in map(_identity, wanted)}
        if wanted and set(self._since[name]) - set(known):
            for pod in self._pods.by_index(BY_NODE, name):
                self._enqueue(pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"].get("nodeName") in self._since:
            self._enqueue(new)

    def _enqueue(self, pod: Object) -> None:
        meta = pod["metadata"]
        self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}")

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        pod = self._pods.get(name, namespace)
        if pod is None or pod["metadata"].get("deletionTimestamp") or pod_facts.is_finished(pod):
            return None
        node = self._nodes.get(pod["spec"].get("nodeName") or "")
        if node is None or L.SIM_POOL not in (node["metadata"].get("labels") or {}):
            return None
        ends = [self._leaves_at(pod, node, taint) for taint in _no_execute(node)]
        end = min(ends, default=pod_facts.NEVER)
        if end == pod_facts.NEVER:
            return None
        wait = end - self._runtime.clock.now()
        if wait > 0:
            return wait
        try:
            self._runtime.port.delete(R.POD, name, namespace, uid=pod["metadata"]["uid"])
        except (NotFound, Conflict):
            return None
        return None

    def _leaves_at(self, pod: Object, node: Object, taint: Object) -> float:
        since = self._since.get(node["metadata"]["name"], {}).get(_identity(taint))
        if taint["key"] == UNREACHABLE:
            since = down_since(node)
            if self._after_s is not None:
                return since + self._after_s
        if since is None:
            return pod_facts.NEVER
        return since + pod_facts.tolerated_s(pod, taint)


def _no_execute(node: Object) -> list[Object]:
    return [t for t in node["spec"].get("taints") or () if t.get("effect") == "NoExecute"]


def _identity(taint: Object) -> Taint:
    return taint["key"], taint.get("value") or ""

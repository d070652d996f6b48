"""Simulated nodes: their status, their failures and return, and the taints that follow."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock, epoch, rfc3339
from kai_ray.cluster.port import AlreadyExists, NotFound, Object
from kai_ray.cluster.runtime import Runtime

from .cluster_file import ClusterConfig

UNREACHABLE = "node.kubernetes.io/unreachable"
LEASES = "kube-node-lease"
HEARTBEAT_S = 30.0
_HEARTBEAT = "*"


class NodeHealth:
    """Keeps the status of every node of the cluster file, and fails nodes by model or annotation.

    `kai.scheduler/sim-down: "true"` on a Node stops it answering; removing it brings it back.
    """

    name = "node-health"

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._pools = {pool.name: pool for pool in config.node_pools}
        self._fails_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._order: dict[str, int] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._port = runtime.port
        self._nodes = runtime.informer(R.NODE)
        self._nodes.on_change(self._changed)
        wanted = self._config.kubelet.heartbeat_seconds
        if wanted is None:
            wanted = 0.0 if isinstance(runtime.clock, VirtualClock) else HEARTBEAT_S
        self._beat_s = wanted
        if wanted > 0:
            runtime.enqueue(self.name, _HEARTBEAT)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and self._pool(new) is not None:
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def _pool(self, node: Object):
        return self._pools.get((node["metadata"].get("labels") or {}).get(L.SIM_POOL, ""))

    def reconcile(self, key: str) -> float | None:
        if key == _HEARTBEAT:
            return self._heartbeat()
        node = self._nodes.get(key)
        if node is None:
            return None
        now = self._runtime.clock.now()
        asked_down = (node["metadata"].get("annotations") or {}).get(L.SIM_DOWN) == "true"
        failing, due = self._model(node, now)
        down = asked_down or failing
        if down != is_down(node) or not _reported(node):
            self._report(node, down)
        tainted = _tainted(node)
        if down != tainted:
            self._taint(node, down)
        return due

    def _model(self, node: Object, now: float) -> tuple[bool, float | None]:
        """Whether the failure model has the node down now, and seconds until that changes."""
        pool = self._pool(node)
        name = node["metadata"]["name"]
        if pool is None or pool.failures is None:
            return False, None
        model = pool.failures.model()
        if is_down(node) and name not in self._fails_at:
            self._fails_at[name] = down_since(node)
        at = self._fails_at.get(name)
        if at is not None and now >= at + model.repair_s:
            self._failures[name] = self._failures.get(name, 0) + 1
            at = None
        if at is None:
            wait = model.next_failure_s(self._config.seed, name, self._failures.get(name, 0))
            if wait is None:
                return False, None
            at = self._fails_at[name] = now + wait
        if now >= at:
            return True, at + model.repair_s - now
        return False, at - now

    def _report(self, node: Object, down: bool) -> None:
        stamp = rfc3339(self._runtime.clock.now())
        name = node["metadata"]["name"]
        n = self._order.setdefault(name, len(self._order))
        ready = ("Unknown", "NodeStatusUnknown") if down else ("True", "KubeletReady")
        conditions = [
            {"type": t, "status": "Unknown" if down else "False", "reason": r}
            for t, r in (
                ("MemoryPressure", "KubeletHasSufficientMemory"),
                ("DiskPressure", "KubeletHasNoDiskPressure"),
                ("PIDPressure", "KubeletHasSufficientPID"),
            )
        ]
        conditions.append({"type": "Ready", "status": ready[0], "reason": ready[1]})
        for condition in conditions:
            condition["lastTransitionTime"] = stamp
            condition["lastHeartbeatTime"] = stamp
        status = {
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": f"10.{n >> 16}.{(n >> 8) % 256}.{n % 256}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": "v1.35.0-simulated",
                "containerRuntimeVersion": "simulated://1",
                "osImage": "simulated",
            },
        }
        made = self._port.patch(R.NODE, name, {"status": status}, subresource="status")
        self._nodes.remember(made)

    def _taint(self, node: Object, down: bool) -> None:
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != UNREACHABLE]
        if down:
            taints += [{"key": UNREACHABLE, "effect": e} for e in ("NoSchedule", "NoExecute")]
        patch = {"spec": {"taints": taints or None}}
        self._nodes.remember(self._port.patch(R.NODE, node["metadata"]["name"], patch))

    def _heartbeat(self) -> float:
        stamp = rfc3339(self._runtime.clock.now(), micro=True)
        every = self._beat_s
        for node in self._nodes:
            if self._pool(node) is None or is_down(node):
                continue
            name = node["metadata"]["name"]
            spec = {
                "holderIdentity": name,
                "leaseDurationSeconds": int(4 * every) or 1,
                "renewTime": stamp,
            }
            try:
                self._port.patch(R.LEASE, name, {"spec": spec}, LEASES)
            except NotFound:
                self._new_lease(name, spec)
        return every

    def _new_lease(self, name: str, spec: Object) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASES},
            "spec": spec,
        }
        try:
            self._port.create(R.LEASE, lease)
        except (AlreadyExists, NotFound):
            return


def _reported(node: Object) -> bool:
    return bool((node.get("status") or {}).get("conditions"))


def _tainted(node: Object) -> bool:
    return any(t["key"] == UNREACHABLE for t in node["spec"].get("taints") or ())


def is_down(node: Object) -> bool:
    """Ready is not True: nothing that runs there can report."""
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return condition["status"] != "True"
    return False


def down_since(node: Object) -> float:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return epoch(condition["lastTransitionTime"])
    return 0.0


def address_of(node: Object) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address["type"] == "InternalIP":
            return address["address"]
    return ""

"""Opens the scheduling gates of pods whose workload has been resumed.

Pods that come in while their gang is suspended get a gate at admission (admission/pods.py), so that
whoever looks at the pod sees why it waits, and no scheduler takes it. Pods that came in without one
are held by the encoder all the same; the gate is the visible half of one rule.
"""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, NotFound, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.encode.settings import EncodeConfig, MemberOf, in_shard
from kai_ray.encode.traits import is_suspended

_BY_NAMESPACE = "gates-namespace"


class Gates:
    """Keys: a namespace that has pods with our gate."""

    name = "gates"

    def __init__(self, config: EncodeConfig, member_of: MemberOf | None = None) -> None:
        """`member_of` tells the gang of a pod that carries none."""
        self._config = config
        self._member_of = member_of

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._pods.add_index(_BY_NAMESPACE, _gated_in)
        self._pods.on_change(self._pod_changed)
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.on_change(self._group_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Pod and gang may be seen in any order, and the gang be resumed while the pod comes in."""
        for namespace in _gated_in(new) if new is not None and old is None else ():
            self._runtime.enqueue(self.name, namespace)

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or is_suspended(new) or (old is not None and not is_suspended(old)):
            return
        namespace = new["metadata"].get("namespace") or ""
        if any(True for _ in self._pods.by_index(_BY_NAMESPACE, namespace)):
            self._runtime.enqueue(self.name, namespace)

    def reconcile(self, key: str) -> float | None:
        port = self._runtime.port
        free = [pod for pod in self._pods.by_index(_BY_NAMESPACE, key) if self._may_start(pod)]
        for outcome in port.batch([Write(port.patch, (kinds.POD, *_opened(p))) for p in free]):
            if isinstance(outcome, NotFound):
                continue
            if isinstance(outcome, ApiError):
                raise outcome
            self._pods.remember(outcome)
        return None

    def _may_start(self, pod: Object) -> bool:
        """Whether the pod's gang is there and is not suspended."""
        meta = pod["metadata"]
        name = (meta.get("annotations") or {}).get(names.POD_GROUP)
        if not name and self._member_of is not None:
            found = self._member_of(pod)
            name = found[0] if found is not None else ""
        group = self._groups.get(name, meta.get("namespace") or "") if name else None
        return group is not None and in_shard(group, self._config) and not is_suspended(group)


def _gated_in(pod: Object) -> list[str]:
    gates = pod["spec"].get("schedulingGates") or ()
    if not any(gate.get("name") == names.SUSPENDED_GATE for gate in gates):
        return []
    return [pod["metadata"].get("namespace") or ""]


def _opened(pod: Object) -> tuple[str, Object, str]:
    """(name, patch, namespace) by which a pod keeps its other gates only."""
    key, gates = key_of(pod), pod["spec"]["schedulingGates"]
    left = [gate for gate in gates if gate.get("name") != names.SUSPENDED_GATE]
    meta = {"uid": pod["metadata"].get("uid")}  # a namesake made since is refused
    return key.name, {"metadata": meta, "spec": {"schedulingGates": left or None}}, key.namespace

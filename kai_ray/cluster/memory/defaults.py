"""What the API server fills in: defaults of built-in kinds, and of CRDs by their schemas."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Forbidden, Key, Object

from . import crds
from .copying import clone
from .kinds import Served
from .pod_defaults import (
    as_text,
    gated,
    pod_spec,
    quality_of_service,
    request_limits,
    tolerate_node_trouble,
)
from .workload_defaults import (
    cron_job,
    daemon_set,
    deployment,
    fill,
    job,
    own_its_pods,
    replica_set,
    replication_controller,
    spec_of,
    stateful_set,
)

if TYPE_CHECKING:
    from .store import MemoryStore

#: Kinds whose status is kept when they are created with one.
_STATUS_ON_CREATE = {("", "nodes"), ("policy", "poddisruptionbudgets")}


def for_create(served: Served, new: Object, store: MemoryStore) -> None:
    """Fills in a new object (ours) in place."""
    if served.status and served.group_plural not in _STATUS_ON_CREATE:
        new.pop("status", None)
    if served.schema is not None:
        _normalize(served, new)
        return
    complete = _FILL.get(served.group_plural)
    if complete is not None:
        complete(new)
    extra = _ON_CREATE.get(served.group_plural)
    if extra is not None:
        extra(new, store)
    if served.status:
        # Go's clients and servers always show it; programs read `job.status.active` unguarded.
        new.setdefault("status", {})


def after_admission(served: Served, new: Object, store: MemoryStore) -> None:
    """The server's own admission, after the plugins."""
    if served.schema is not None:
        _normalize(served, new)
    elif served.group_plural == ("", "pods"):
        _set_priority(new, store)


def for_update(served: Served, new: Object, old: Object, store: MemoryStore) -> None:
    """Fills in an updated object whose top level is ours; the parts below may be shared."""
    if served.schema is not None:
        _normalize(served, new)
        return
    complete = _FILL.get(served.group_plural)
    if complete is None or served.group_plural == ("", "pods"):
        return
    if new.get("spec") != old.get("spec") or new.get("data") != old.get("data"):
        for part in ("spec", "data", "status"):
            if part in new:
                new[part] = clone(new[part])
        complete(new)


def _normalize(served: Served, new: Object) -> None:
    assert served.schema is not None
    full = served.schema.normalize(new)
    if full is not new:
        new.clear()
        new.update(full)


def _set_priority(pod: Object, store: MemoryStore) -> None:
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    classes = store.state.table(("scheduling.k8s.io", "priorityclasses")).objects
    name = spec.get("priorityClassName")
    found = classes.get(Key("", name)) if isinstance(name, str) and name else None
    if name and found is None:
        builtin = _SYSTEM_PRIORITIES.get(name)
        if builtin is None:
            raise Forbidden(
                f'pods "{pod["metadata"]["name"]}" is forbidden: no PriorityClass with name {name} '
                "was found: create it or change spec.priorityClassName"
            )
        spec["priority"] = builtin
        return
    if found is None:
        found = next((c for c in classes.values() if c.get("globalDefault")), None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found["value"] if found is not None else 0
    spec.setdefault(
        "preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    )


_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def _pod(pod: Object) -> None:
    pod_spec(pod.get("spec"))
    request_limits(pod.get("spec"))


def _new_pod(pod: Object, store: MemoryStore) -> None:
    spec: Any = pod.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("enableServiceLinks", True)
        tolerate_node_trouble(spec)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    gated(pod, store.now())


def _node(obj: Object) -> None:
    status = obj.get("status") or {}
    for name in ("capacity", "allocatable"):
        if name in status:
            status[name] = as_text(status[name])
    if "capacity" in status:
        fill(status, allocatable=dict(status["capacity"]))


def _network_policy(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, policyTypes=["Ingress", *(["Egress"] if spec.get("egress") else [])])


def _binding(obj: Object) -> None:
    for subject in obj.get("subjects") or ():
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup="rbac.authorization.k8s.io")


def _new_job(obj: Object, store: MemoryStore) -> None:
    own_its_pods(obj)


def _service(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            fill(port, protocol="TCP", targetPort=port.get("port"))


def _new_service(obj: Object, store: MemoryStore) -> None:
    spec = spec_of(obj)
    if spec["type"] != "ExternalName":
        number = int(obj["metadata"]["uid"][:6], 16)
        fill(
            spec, clusterIP=f"10.{96 + number % 16}.{number // 16 % 256}.{number // 4096 % 254 + 1}"
        )
        fill(spec, clusterIPs=[spec["clusterIP"]])
        fill(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    obj["status"] = {"loadBalancer": {}}


def _namespace(obj: Object) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    if isinstance(labels, dict):
        labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _new_namespace(obj: Object, store: MemoryStore) -> None:
    _namespace(obj)
    spec_of(obj)["finalizers"] = ["kubernetes"]
    obj["status"] = {"phase": "Active"}


def _secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    for key, value in (obj.get("data") or {}).items():
        obj["data"][key] = "".join(value.split())
    extra: Any = obj.pop("stringData", None)
    if isinstance(extra, dict):
        data = obj.setdefault("data", {})
        for key, value in extra.items():
            data[key] = base64.b64encode(str(value).encode()).decode()


def _claim(obj: Object) -> None:
    spec = spec_of(obj)
    fill(spec, volumeMode="Filesystem")
    if requests := (spec.get("resources") or {}).get("requests"):
        spec["resources"]["requests"] = as_text(requests)


def _new_status(**status: Any) -> Callable[[Object, MemoryStore], None]:
    def start(obj: Object, store: MemoryStore) -> None:
        obj["status"] = dict(status)

    return start


def _new_claim(obj: Object, store: MemoryStore) -> None:
    obj["status"] = {"phase": "Pending"}
    spec = spec_of(obj)
    if "storageClassName" not in spec:
        mark = "storageclass.kubernetes.io/is-default-class"
        for found in store.state.table(("storage.k8s.io", "storageclasses")).objects.values():
            if (found["metadata"].get("annotations") or {}).get(mark) == "true":
                spec["storageClassName"] = found["metadata"]["name"]


def _priority_class(obj: Object) -> None:
    fill(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _new_crd(obj: Object, store: MemoryStore) -> None:
    crds.set_defaults(obj, store.now())


def _at(resource: Any) -> tuple[str, str]:
    return resource.group, resource.plural


_FILL: dict[tuple[str, str], Callable[[Object], None]] = {
    _at(r.POD): _pod,
    _at(r.DEPLOYMENT): deployment,
    _at(r.REPLICA_SET): replica_set,
    _at(r.REPLICATION_CONTROLLER): replication_controller,
    _at(r.NODE): _node,
    _at(r.NETWORK_POLICY): _network_policy,
    _at(r.ROLE_BINDING): _binding,
    _at(r.CLUSTER_ROLE_BINDING): _binding,
    _at(r.STATEFUL_SET): stateful_set,
    _at(r.DAEMON_SET): daemon_set,
    _at(r.JOB): job,
    _at(r.CRON_JOB): cron_job,
    _at(r.SERVICE): _service,
    _at(r.SECRET): _secret,
    _at(r.PVC): _claim,
    _at(r.PRIORITY_CLASS): _priority_class,
    _at(r.STORAGE_CLASS): _storage_class,
}
_ON_CREATE: dict[tuple[str, str], Callable[[Object, MemoryStore], None]] = {
    _at(r.POD): _new_pod,
    _at(r.JOB): _new_job,
    _at(r.SERVICE): _new_service,
    _at(r.NAMESPACE): _new_namespace,
    _at(r.PVC): _new_claim,
    _at(r.PV): _new_status(phase="Available"),
    _at(r.REPLICA_SET): _new_status(replicas=0),
    _at(r.REPLICATION_CONTROLLER): _new_status(replicas=0),
    _at(r.STATEFUL_SET): _new_status(replicas=0, availableReplicas=0),
    _at(r.DAEMON_SET): _new_status(
        currentNumberScheduled=0, desiredNumberScheduled=0, numberMisscheduled=0, numberReady=0
    ),
    _at(r.CRD): _new_crd,
}

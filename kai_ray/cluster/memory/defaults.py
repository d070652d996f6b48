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
from .pod_defaults import pod_spec, quality_of_service, tolerate_node_trouble

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
    fill = _FILL.get(served.group_plural)
    if fill is not None:
        fill(new)
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
    fill = _FILL.get(served.group_plural)
    if fill is None or served.group_plural == ("", "pods"):
        return
    if new.get("spec") != old.get("spec") or new.get("data") != old.get("data"):
        for part in ("spec", "data"):
            if part in new:
                new[part] = clone(new[part])
        fill(new)


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


def _new_pod(pod: Object, store: MemoryStore) -> None:
    spec: Any = pod.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("enableServiceLinks", True)
        tolerate_node_trouble(spec)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}


def _template(obj: Any) -> None:
    """Defaults of the pod template of a workload's spec."""
    template: Any = obj.get("template") if isinstance(obj, dict) else None
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        pod_spec(template.get("spec"))


def _spec(obj: Object) -> dict[str, Any]:
    spec = obj.setdefault("spec", {})
    return spec if isinstance(spec, dict) else {}


def _fill(spec: dict[str, Any], **defaults: Any) -> None:
    for key, value in defaults.items():
        spec.setdefault(key, value)


def _deployment(obj: Object) -> None:
    spec = _spec(obj)
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {"type": "RollingUpdate"})
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        strategy["type"] = "RollingUpdate"
        _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def _replica_set(obj: Object) -> None:
    _fill(_spec(obj), replicas=1)
    _template(_spec(obj))


def _stateful_set(obj: Object) -> None:
    spec = _spec(obj)
    _fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    _fill(spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    _template(spec)


def _daemon_set(obj: Object) -> None:
    _fill(_spec(obj), revisionHistoryLimit=10)
    _template(_spec(obj))


def _job(obj: Object) -> None:
    spec = _spec(obj)
    _fill(spec, completionMode="NonIndexed", suspend=False)
    if "completions" not in spec and "parallelism" not in spec:
        _fill(spec, completions=1)
    _fill(spec, parallelism=1, backoffLimit=6, manualSelector=False)
    _fill(
        spec,
        podReplacementPolicy="TerminatingOrFailed" if "podFailurePolicy" not in spec else "Failed",
    )
    _template(spec)


def _new_job(obj: Object, store: MemoryStore) -> None:
    spec, meta = _spec(obj), obj["metadata"]
    template: Any = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return
    uid, name = meta["uid"], meta["name"]
    labels: Any = template.setdefault("metadata", {}).setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _cron_job(obj: Object) -> None:
    spec = _spec(obj)
    _fill(spec, concurrencyPolicy="Allow", suspend=False)
    _fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template: Any = spec.get("jobTemplate")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        _template(template.get("spec"))


def _service(obj: Object) -> None:
    spec = _spec(obj)
    _fill(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            _fill(port, protocol="TCP", targetPort=port.get("port"))


def _new_service(obj: Object, store: MemoryStore) -> None:
    spec = _spec(obj)
    if spec["type"] != "ExternalName":
        number = int(obj["metadata"]["uid"][:6], 16)
        _fill(
            spec, clusterIP=f"10.{96 + number % 16}.{number // 16 % 256}.{number // 4096 % 254 + 1}"
        )
        _fill(spec, clusterIPs=[spec["clusterIP"]])
        _fill(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    obj["status"] = {"loadBalancer": {}}


def _namespace(obj: Object) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    if isinstance(labels, dict):
        labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _new_namespace(obj: Object, store: MemoryStore) -> None:
    _namespace(obj)
    _spec(obj)["finalizers"] = ["kubernetes"]
    obj["status"] = {"phase": "Active"}


def _secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    extra: Any = obj.pop("stringData", None)
    if isinstance(extra, dict):
        data = obj.setdefault("data", {})
        for key, value in extra.items():
            data[key] = base64.b64encode(str(value).encode()).decode()


def _claim(obj: Object) -> None:
    _fill(_spec(obj), volumeMode="Filesystem")


def _new_phase(phase: str) -> Callable[[Object, MemoryStore], None]:
    def fill(obj: Object, store: MemoryStore) -> None:
        obj["status"] = {"phase": phase}

    return fill


def _new_claim(obj: Object, store: MemoryStore) -> None:
    obj["status"] = {"phase": "Pending"}
    spec = _spec(obj)
    if "storageClassName" not in spec:
        mark = "storageclass.kubernetes.io/is-default-class"
        for found in store.state.table(("storage.k8s.io", "storageclasses")).objects.values():
            if (found["metadata"].get("annotations") or {}).get(mark) == "true":
                spec["storageClassName"] = found["metadata"]["name"]


def _priority_class(obj: Object) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _storage_class(obj: Object) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _new_crd(obj: Object, store: MemoryStore) -> None:
    crds.set_defaults(obj, store.now())


def _at(resource: Any) -> tuple[str, str]:
    return resource.group, resource.plural


_FILL: dict[tuple[str, str], Callable[[Object], None]] = {
    _at(r.POD): _pod,
    _at(r.DEPLOYMENT): _deployment,
    _at(r.REPLICA_SET): _replica_set,
    _at(r.REPLICATION_CONTROLLER): _replica_set,
    _at(r.STATEFUL_SET): _stateful_set,
    _at(r.DAEMON_SET): _daemon_set,
    _at(r.JOB): _job,
    _at(r.CRON_JOB): _cron_job,
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
    _at(r.PV): _new_phase("Available"),
    _at(r.CRD): _new_crd,
}

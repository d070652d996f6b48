"""The status that KubeRay writes on a RayCluster."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.api import quantity
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts

from . import ray_names as names
from . import raycluster_services as services
from .ray_groups import desired_replicas, hosts_of
from .world import World, is_deleting, own_copy


def cluster_status(world: World, cluster: Object, pods: list[Object]) -> Object:
    spec, old = cluster["spec"], cluster.get("status") or {}
    groups = spec.get("workerGroupSpecs") or []
    workers = [p for p in pods if p["metadata"]["labels"].get(L.RAY_NODE_TYPE) == "worker"]
    head = next((p for p in pods if p["metadata"]["labels"].get(L.RAY_NODE_TYPE) == "head"), None)
    desired = sum(desired_replicas(g) * hosts_of(g) for g in groups)
    totals: dict[str, int] = dict(requested(spec["headGroupSpec"]["template"]))
    for group in groups:
        for name, value in requested(group["template"]).items():
            pods_wanted = desired_replicas(group) * hosts_of(group)
            totals[name] = totals.get(name, 0) + value * pods_wanted
    status = own_copy(old)
    _set(status, "availableWorkerReplicas", sum(pod_facts.phase(p) == "Running" for p in workers))
    _set(status, "readyWorkerReplicas", sum(pod_facts.is_ready(p) for p in workers))
    _set(status, "desiredWorkerReplicas", desired)
    low = sum((g.get("minReplicas") or 0) * hosts_of(g) for g in groups if not g.get("suspend"))
    high = sum((g.get("maxReplicas") or 2**31 - 1) * hosts_of(g) for g in groups)
    _set(status, "minWorkerReplicas", low)
    _set(status, "maxWorkerReplicas", min(high, 2**31 - 1))
    status["desiredCPU"] = quantity_text("cpu", totals.get("cpu", 0))
    status["desiredMemory"] = quantity_text("memory", totals.get("memory", 0))
    gpus = sum(v for k, v in totals.items() if k.endswith("gpu") or k.startswith("nvidia.com/mig-"))
    status["desiredGPU"] = str(gpus)
    status["desiredTPU"] = str(totals.get("google.com/tpu", 0))
    status["endpoints"] = {n: str(p) for n, p in services.service_ports(cluster).items()}
    status["head"] = _head_info(cluster, head)
    status["observedGeneration"] = cluster["metadata"].get("generation", 1)
    _set_state(world, cluster, pods, desired, status)
    _set_conditions(world, cluster, pods, head, desired, status)
    if {**status, "lastUpdateTime": ""} != {**old, "lastUpdateTime": ""}:
        status["lastUpdateTime"] = world.stamp()
    return status


def _set(status: Object, field: str, value: int) -> None:
    """Zero counts are left out, as Go's omitempty does."""
    if value:
        status[field] = value
    else:
        status.pop(field, None)


def _head_info(cluster: Object, head: Object | None) -> Object:
    info: Object = {"serviceName": names.service_name(cluster)}
    if head is not None:
        info["podName"] = head["metadata"]["name"]
        ip = (head.get("status") or {}).get("podIP")
        if ip:
            info |= {"podIP": ip, "serviceIP": ip}
    return info


def all_running(pods: list[Object]) -> bool:
    return bool(pods) and all(
        pod_facts.phase(p) == "Running" and pod_facts.is_ready(p) and not is_deleting(p)
        for p in pods
    )


def _set_state(
    world: World, cluster: Object, pods: list[Object], desired: int, status: Object
) -> None:
    state = status.get("state")
    if cluster["spec"].get("suspend"):
        if not pods:
            state = "suspended"
    elif len(pods) == desired + 1 and all_running(pods):
        state = "ready"
    elif state == "suspended":
        state = None
    if state and state != status.get("state"):
        status.setdefault("stateTransitionTimes", {})[state] = world.stamp()
    if state:
        status["state"] = state
    else:
        status.pop("state", None)


def _set_conditions(
    world: World,
    cluster: Object,
    pods: list[Object],
    head: Object | None,
    desired: int,
    status: Object,
) -> None:
    conditions = status.setdefault("conditions", [])

    def put(kind: str, true: bool, reason: str, message: str = "") -> None:
        world.set_condition(conditions, kind, "True" if true else "False", reason, message)

    if head is None:
        put("HeadPodReady", False, "HeadPodNotFound", "Head Pod not found")
    elif pod_facts.is_ready(head):
        put("HeadPodReady", True, "HeadPodRunningAndReady")
    else:
        found = pod_facts.pod_condition(head, "Ready") or {}
        put("HeadPodReady", False, found.get("reason") or "Unknown", found.get("message", ""))
    suspended = bool(cluster["spec"].get("suspend"))
    first = "RayCluster Pods are being provisioned for first time"
    provisioned = any(
        c["type"] == "RayClusterProvisioned" and c["status"] == "True" for c in conditions
    )
    if suspended and not pods:
        put("RayClusterProvisioned", False, "RayClusterPodsProvisioning", "RayCluster has been suspended")  # fmt: skip  # noqa: E501
    elif not provisioned and not suspended:
        if len(pods) == desired + 1 and all_running(pods):
            message = "All Ray Pods are ready for the first time"
            put("RayClusterProvisioned", True, "AllPodRunningAndReadyFirstTime", message)
        else:
            put("RayClusterProvisioned", False, "RayClusterPodsProvisioning", first)
    put("RayClusterSuspended", suspended and not pods, "RayClusterSuspended")
    put("RayClusterSuspending", suspended and bool(pods), "RayClusterSuspending")


def requested(template: Object) -> dict[str, int]:
    """What the containers of a template ask for (millicores, whole units)."""
    total: dict[str, int] = {}
    for container in template["spec"].get("containers") or ():
        for name, value in pod_facts.container_requests(container).items():
            total[name] = total.get(name, 0) + value
    return total


def quantity_text(name: str, value: int) -> str:
    """Millicores or units as Kubernetes prints them."""
    if name == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        scale = quantity.whole(f"1{unit}")
        if name == "memory" and value and value % scale == 0:
            return f"{value // scale}{unit}"
    return str(value)

"""The status a kubelet writes at each step of a pod's life. Pure: old pod in, new status out."""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object

Condition = tuple[str, str, str]


def _conditions(pod: Object, stamp: str, wanted: list[Condition]) -> list[Object]:
    """Existing conditions with `wanted` (type, status, reason) set; times move with the status."""
    found = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    for kind, status, reason in wanted:
        old = found.get(kind)
        if old is not None and old["status"] == status and old.get("reason", "") == reason:
            continue
        new: Object = {
            "type": kind,
            "status": status,
            "lastTransitionTime": stamp
            if old is None or old["status"] != status
            else old.get("lastTransitionTime", stamp),
        }
        if reason:
            new["reason"] = reason
        found[kind] = new
    return list(found.values())


def _container(
    container: Object, state: Object, *, ready: bool, restarts: int, last: Object
) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    }


def _terminated(code: int, started: str, stamp: str, reason: str = "") -> Object:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": started,
            "finishedAt": stamp,
        }
    }


def _old(pod: Object, name: str) -> Object:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == name:
            return status
    return {}


def _started_at(old: Object, stamp: str) -> str:
    state = old.get("state") or {}
    return (state.get("running") or state.get("terminated") or {}).get("startedAt", stamp)


def rejected(reason: str, message: str, stamp: str) -> Object:
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": stamp}


def waiting_for_init(pod: Object, host_ip: str, stamp: str) -> Object:
    """Init containers run, the main ones have not started."""
    spec = pod["spec"]
    running = [
        _container(c, {"running": {"startedAt": stamp}}, ready=False, restarts=0, last={})
        for c in spec.get("initContainers") or ()
    ]
    main = [
        _container(c, {"waiting": {"reason": "PodInitializing"}}, ready=False, restarts=0, last={})
        for c in spec["containers"]
    ]
    wanted = [
        ("Initialized", "False", "ContainersNotInitialized"),
        ("ContainersReady", "False", "ContainersNotReady"),
        ("Ready", "False", "ContainersNotReady"),
    ]
    return {
        "phase": "Pending",
        "conditions": _conditions(pod, stamp, wanted),
        "hostIP": host_ip,
        "startTime": stamp,
        "initContainerStatuses": running,
        "containerStatuses": main,
    }


def _shares_devices(pod: Object) -> str:
    """The container that gets the devices which the pod shares; "" where it shares none."""
    annotations = pod["metadata"].get("annotations") or {}
    if L.GPU_FRACTION not in annotations and L.GPU_MEMORY not in annotations:
        return ""
    names: list[str] = [c["name"] for c in pod["spec"]["containers"]]
    wanted = annotations.get(L.GPU_FRACTION_CONTAINER)
    return names[names.index(wanted) if wanted in names else 0]


def running(
    pod: Object, host_ip: str, pod_ip: str, stamp: str, devices: list[str] | None = None
) -> Object:
    """All containers run and are ready. `devices`: ids of the GPUs it was given."""
    spec = pod["spec"]
    left = list(devices or ())
    sharing = _shares_devices(pod)
    statuses: list[Object] = []
    for c in spec["containers"]:
        old = _old(pod, c["name"])
        state = {"running": {"startedAt": stamp}}
        status = _container(
            c,
            state,
            ready=True,
            restarts=old.get("restartCount", 0),
            last=old.get("lastState") or {},
        )
        limits = (c.get("resources") or {}).get("limits") or {}
        count = int(limits.get(L.NVIDIA_GPU, 0) or 0)
        if c["name"] == sharing:
            count = len(left)
        if count and left:
            given, left = left[:count], left[count:]
            status["allocatedResourcesStatus"] = [
                {
                    "name": L.NVIDIA_GPU,
                    "resources": [{"resourceID": d, "health": "Healthy"} for d in given],
                }
            ]
        statuses.append(status)
    out: Object = {
        "phase": "Running",
        "conditions": _conditions(pod, stamp, [(k, "True", "") for k in _ALL_READY]),
        "hostIP": host_ip,
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": (pod.get("status") or {}).get("startTime") or stamp,
        "containerStatuses": statuses,
    }
    if spec.get("initContainers"):
        out["initContainerStatuses"] = [
            _container(c, _terminated(0, stamp, stamp), ready=True, restarts=0, last={})
            for c in spec["initContainers"]
        ]
    return out


_ALL_READY = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


def finished(pod: Object, code: int, stamp: str, reason: str = "") -> Object:
    """The pod's end: Succeeded for code 0, else Failed."""
    statuses: list[Object] = []
    for c in pod["spec"]["containers"]:
        old = _old(pod, c["name"])
        if "terminated" in (old.get("state") or {}):
            statuses.append(old)
            continue
        state = _terminated(code, _started_at(old, stamp), stamp)
        statuses.append(
            _container(
                c,
                state,
                ready=False,
                restarts=old.get("restartCount", 0),
                last=old.get("lastState") or {},
            )
        )
    why = "PodCompleted" if code == 0 else "PodFailed"
    wanted = [
        ("Initialized", "True", why),
        ("Ready", "False", why),
        ("ContainersReady", "False", why),
    ]
    out: dict[str, Any] = {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": _conditions(pod, stamp, wanted),
        "containerStatuses": statuses,
    }
    if reason:
        out["reason"] = reason
    return out


def container_ended(pod: Object, name: str, code: int, stamp: str) -> Object:
    """One container of several has ended; the pod goes on."""
    statuses: list[Object] = []
    for c in pod["spec"]["containers"]:
        old = _old(pod, c["name"])
        if c["name"] == name:
            state = _terminated(code, _started_at(old, stamp), stamp)
            old = _container(c, state, ready=False, restarts=old.get("restartCount", 0), last={})
        statuses.append(old)
    wanted = [
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
    ]
    return {"conditions": _conditions(pod, stamp, wanted), "containerStatuses": statuses}


def crashed(pod: Object, code: int, stamp: str) -> Object:
    """The containers have ended and will be started again after a back-off."""
    statuses: list[Object] = []
    for c in pod["spec"]["containers"]:
        old = _old(pod, c["name"])
        last = _terminated(code, _started_at(old, stamp), stamp)
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
        restarts = old.get("restartCount", 0) + 1
        status = _container(c, state, ready=False, restarts=restarts, last=last)
        if "allocatedResourcesStatus" in old:
            # Its devices stay its own while it waits.
            status["allocatedResourcesStatus"] = old["allocatedResourcesStatus"]
        statuses.append(status)
    wanted = [
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
    ]
    return {"conditions": _conditions(pod, stamp, wanted), "containerStatuses": statuses}


def unreachable(pod: Object, stamp: str) -> Object:
    """The node has stopped answering."""
    return {"conditions": _conditions(pod, stamp, [("Ready", "False", "NodeNotReady")])}

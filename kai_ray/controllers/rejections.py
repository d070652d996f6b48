"""What a pod's status says about a node or device that would not run it."""

from __future__ import annotations

import re

from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object

#: What a kubelet says of a pod that it will not run; OutOf... comes with the resource's name.
_REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError")
#: How a runtime says that a container could not be started. Most of these are the pod's own making
#: (no such program, no such file): they count only where they speak of a device.
_NOT_STARTED = ("RunContainerError", "CreateContainerError", "StartError", "ContainerCannotRun")
_OF_DEVICES = re.compile(r"\b(nvidia|nvml|cuda|gpus?|cdi|devices?|xid|amdgpu|rocm)\b", re.I)


def rejected(pod: Object | None) -> str:
    """The reason for which a kubelet refused a pod; "" for any other pod."""
    status = (pod or {}).get("status") or {}
    reason = status.get("reason")
    if status.get("phase") != "Failed" or not isinstance(reason, str):
        return ""
    return reason if reason in _REJECTED or reason.startswith("OutOf") else ""


def unstarted(pod: Object) -> str:
    """Why a container could not be started on its devices; "" where that is not so."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            for kind in ("waiting", "terminated"):
                said = state.get(kind) or {}
                message = str(said.get("message") or "")
                if said.get("reason") in _NOT_STARTED and _OF_DEVICES.search(message):
                    return f"{said['reason']}: {message}"
    return ""


def moment(text: str) -> float:
    """A time as written in annotations; one that cannot be read is over."""
    try:
        return epoch(text) if text else 0.0
    except (ValueError, TypeError):
        return 0.0

"""What a kubelet reads off a pod: what it asks for, who waits for whom, when its work ends.

Kept apart from the scheduler's own reading of pods on purpose: the simulated kubelets are the check
that the scheduler's reading is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kai_ray.api import labels as L
from kai_ray.api import operator_defaults as defaults
from kai_ray.api import quantity
from kai_ray.cluster.port import Object

FINISHED = ("Succeeded", "Failed")
NEVER = float("inf")
SUBMITTER = defaults.RAY_SUBMITTER_CONTAINER
#: Owners whose pods serve until somebody deletes them.
_SERVING_OWNERS = frozenset(
    {"RayCluster", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_finished(pod: Object) -> bool:
    return phase(pod) in FINISHED


def pod_condition(pod: Object, kind: str) -> Object | None:
    for found in (pod.get("status") or {}).get("conditions") or ():
        if found["type"] == kind:
            return found
    return None


def is_ready(pod: Object) -> bool:
    found = pod_condition(pod, "Ready")
    return found is not None and found["status"] == "True"


def container_state(pod: Object, name: str) -> Object:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == name:
            return status.get("state") or {}
    return {}


def exit_code(pod: Object) -> int | None:
    """The first non-zero exit code of its containers, 0 if all ended well, None if none ended."""
    codes = [
        s["state"]["terminated"]["exitCode"]
        for s in (pod.get("status") or {}).get("containerStatuses") or ()
        if (s.get("state") or {}).get("terminated")
    ]
    return next((c for c in codes if c), 0) if codes else None


def restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((s.get("restartCount", 0) for s in statuses), default=0)


def duration_s(text: str) -> float:
    """Seconds of a Go duration ("1h30m", "250ms") or of a plain number. Raises ValueError."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    total, number = 0.0, ""
    i = 0
    while i < len(text):
        if text[i].isdigit() or text[i] == ".":
            number += text[i]
            i += 1
            continue
        unit = "ms" if text[i : i + 2] == "ms" else text[i]
        if not number or unit not in _UNITS:
            raise ValueError(f"{text!r} is not a duration: write for example 30s or 1h30m")
        total += float(number) * _UNITS[unit]
        number, i = "", i + len(unit)
    if number or not text:
        raise ValueError(f"{text!r} is not a duration: write for example 30s or 1h30m")
    return total


def _amount(resource: str, value: str | int | float) -> int:
    return quantity.milli(value) if resource == "cpu" else quantity.whole(value)


def container_requests(container: Object) -> dict[str, int]:
    """Millicores for cpu, whole units for the rest; a limit stands in for a missing request."""
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: _amount(name, value) for name, value in wanted.items()}


def requests(pod: Object) -> dict[str, int]:
    """What the node must have free: all containers or the largest init step, and overhead."""
    spec = pod["spec"]
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            wanted = {}
        for name in {*wanted, *sidecars}:
            step = wanted.get(name, 0) + sidecars.get(name, 0)
            peak[name] = max(peak.get(name, 0), step)
    for container in spec.get("containers") or ():
        _add(total, container_requests(container))
    _add(total, sidecars)
    for name, step in peak.items():
        total[name] = max(total.get(name, 0), step)
    _add(total, {k: _amount(k, v) for k, v in (spec.get("overhead") or {}).items()})
    total["pods"] = 1
    return total


def card_mib(node: Object) -> int:
    """MiB of each GPU of a node; 100, which makes parts percent, where it does not say."""
    label = (node["metadata"].get("labels") or {}).get(L.GPU_CARD_MEMORY, "")
    return int(label) // 100 * 100 or 100 if label.isdigit() else 100


def kept_group(pod: Object) -> str:
    """The group that a reservation pod keeps its device for; "" of any other pod."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get(L.GPU_GROUP, "") if labels.get(L.APP) == L.RESERVATION else ""


def shares(pod: Object, card: int) -> dict[str, int]:
    """MiB of each shared device that the pod was given, by the group that shares it."""
    labels = pod["metadata"].get("labels") or {}
    if labels.get(L.APP) == L.RESERVATION:
        return {}
    groups = {v for k, v in labels.items() if k == L.GPU_GROUP or k.startswith(L.GPU_GROUP + "/")}
    if not groups:
        return {}
    annotations = pod["metadata"].get("annotations") or {}
    memory = annotations.get(L.GPU_MEMORY)
    part = float(annotations.get(L.GPU_FRACTION) or 0)
    each = int(memory) if memory else int(part * card + 1e-6)
    return {group: max(each, 1) for group in sorted(groups)}


def host_ports(pod: Object) -> frozenset[tuple[str, int]]:
    """(protocol, port) of every port of the node that the pod takes."""
    spec = pod["spec"]
    return frozenset(
        (port.get("protocol") or "TCP", port.get("hostPort") or port["containerPort"])
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort") or spec.get("hostNetwork")
    )


def tolerated_s(pod: Object, taint: Object) -> float:
    """Seconds that the pod stays on a node with this NoExecute taint: 0, some, or for ever."""
    for toleration in pod["spec"].get("tolerations") or ():
        key, effect = toleration.get("key") or "", toleration.get("effect") or "NoExecute"
        exists = toleration.get("operator", "Equal") == "Exists"
        if effect != "NoExecute" or key not in ("", taint["key"]) or (not key and not exists):
            continue
        if exists or (toleration.get("value") or "") == (taint.get("value") or ""):
            seconds = toleration.get("tolerationSeconds")
            return NEVER if seconds is None else float(seconds)
    return 0.0


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def allocatable(node: Object) -> dict[str, int]:
    found = (node.get("status") or {}).get("allocatable") or {}
    return {name: _amount(name, value) for name, value in found.items()}


def _owner_kind(pod: Object) -> str:
    for ref in pod["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            return ref["kind"]
    return ""


def ends_by_itself(pod: Object) -> bool:
    """Whether the main containers run to an end. Services, parameter servers, sshd do not."""
    kind = _owner_kind(pod)
    if kind in _SERVING_OWNERS or pod["spec"].get("restartPolicy", "Always") == "Always":
        return False
    role = (pod["metadata"].get("labels") or {}).get(L.TRAINING_REPLICA_TYPE, "")
    if (kind, role) in (("MPIJob", "worker"), ("TFJob", "ps")):
        return False
    first = (pod["spec"].get("containers") or [{}])[0]
    command = [*(first.get("command") or ()), ""]
    return not command[0].endswith("sshd")


def init_gates(pod: Object) -> Iterator[str]:
    """What the init containers wait for, as keys that `facts_of` of other pods provide.

    Ray workers wait for their head, PyTorch workers for their master.
    """
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    namespace = meta.get("namespace", "")
    for container in pod["spec"].get("initContainers") or ():
        name = container["name"]
        if name == "wait-gcs-ready" and L.RAY_CLUSTER in labels:
            yield f"ray-head/{namespace}/{labels[L.RAY_CLUSTER]}"
        elif name == "init-pytorch" and L.TRAINING_JOB_NAME in labels:
            yield f"pod/{namespace}/{labels[L.TRAINING_JOB_NAME]}-master-0"


def facts_of(pod: Object) -> Iterator[str]:
    """The keys that become true when this pod is ready."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    namespace = meta.get("namespace", "")
    yield f"pod/{namespace}/{meta['name']}"
    if labels.get(L.RAY_NODE_TYPE) == "head" and L.RAY_CLUSTER in labels:
        yield f"ray-head/{namespace}/{labels[L.RAY_CLUSTER]}"


def codes(text: str) -> Callable[[int], int]:
    """Exit codes by attempt: "1,0" fails once; the last one repeats."""
    parts = [int(p) for p in text.split(",")]
    return lambda attempt: parts[min(attempt, len(parts) - 1)]

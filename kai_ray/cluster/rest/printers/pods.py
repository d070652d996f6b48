"""Pods and nodes."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import Object

from .column import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    age,
    columns,
    condition,
    is_true,
    joined,
    name,
    since,
)


def _pod(obj: Object, now: float) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready, restarts, last_restart = _containers(obj)
    total = len(spec.get("containers") or ()) + sum(
        map(_is_sidecar, spec.get("initContainers") or ())
    )
    restarted = f"{restarts} ({since(last_restart, now)} ago)" if last_restart else str(restarts)
    gates = spec.get("readinessGates") or ()
    passed = sum(is_true(obj, gate.get("conditionType", "")) for gate in gates)
    return [
        name(obj),
        f"{ready}/{total}",
        pod_status(obj),
        restarted,
        age(obj, now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{passed}/{len(gates)}" if gates else "<none>",
    ]


def pod_status(obj: Object) -> str:
    """The one word that kubectl gives a pod: its phase, or the closest cause of trouble."""
    status = obj.get("status") or {}
    text = status.get("reason") or status.get("phase") or "Unknown"
    scheduled = condition(obj, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        text = "SchedulingGated"
    text, initialising = _init_status(obj, text)
    if not initialising or is_true(obj, "Initialized"):
        text = _main_status(obj, text)
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Failed", "Succeeded"):
            return "Terminating"
    return text


def _init_status(obj: Object, text: str) -> tuple[str, bool]:
    inits: list[Any] = (obj.get("spec") or {}).get("initContainers") or []
    specs = {c.get("name"): c for c in inits}
    for i, entry in enumerate((obj.get("status") or {}).get("initContainerStatuses") or ()):
        state = entry.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended and ended.get("exitCode", 0) == 0:
            continue
        if _is_sidecar(specs.get(entry.get("name"), {})) and entry.get("started"):
            continue
        if ended:
            return f"Init:{_end(ended)}", True
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}", True
        return f"Init:{i}/{len(inits)}", True
    return text, False


def _main_status(obj: Object, text: str) -> str:
    running = False
    for entry in reversed((obj.get("status") or {}).get("containerStatuses") or []):
        state = entry.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            text = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            text = _end(state["terminated"])
        elif entry.get("ready") and state.get("running") is not None:
            running = True
    if text == "Completed" and running:
        return "Running" if is_true(obj, "Ready") else "NotReady"
    return text


def _end(terminated: Object) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _containers(obj: Object) -> tuple[int, int, str]:
    """(ready, restarts, when the last one ended before its restart or "")."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if _is_sidecar(c)}
    inits: list[Object] = status.get("initContainerStatuses") or []
    entries = [e for e in inits if e.get("name") in sidecars]
    entries += status.get("containerStatuses") or ()
    ready = sum(
        1 for e in entries if e.get("ready") and (e.get("state") or {}).get("running") is not None
    )
    _, initialising = _init_status(obj, "")
    # Until the main containers start, it is the init containers that may be in trouble.
    counted = inits if initialising and not is_true(obj, "Initialized") else entries
    restarts = sum(int(e.get("restartCount") or 0) for e in counted)
    ends = [
        ((e.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        for e in counted
        if e.get("restartCount")
    ]
    return ready, restarts, max(ends, default="")


def _is_sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _node(obj: Object, now: float) -> list[Cell]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = condition(obj, "Ready")
    words = [
        "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    ]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [
        name(obj),
        ",".join(words),
        joined(_roles(obj)),
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(obj: Object) -> list[str]:
    prefix, found = "node-role.kubernetes.io/", set[str]()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            found.add(key[len(prefix) :])
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return sorted(found)


def _address(status: Object, kind: str) -> str:
    for entry in status.get("addresses") or ():
        if entry.get("type") == kind:
            return entry.get("address", "")
    return "<none>"


POD = Printer(
    (
        NAME,
        Column("Ready"),
        Column("Status"),
        Column("Restarts"),
        AGE,
        *columns(wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
    ),
    _pod,
)
NODE = Printer(
    columns(
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    _node,
)

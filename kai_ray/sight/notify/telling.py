"""Which events of a job are worth a message, and what it says."""

from __future__ import annotations

from kai_ray.api.durations import spoken
from kai_ray.history.job_event import JobEvent
from kai_ray.sight.notify.message import Message

_FEW = 4


def told(event: JobEvent, waited_s: float | None, ran_s: float | None) -> Message | None:
    """None for what nobody is told of. `waited_s`, `ran_s`: until now, where known."""
    found = _kind_and_text(event, waited_s, ran_s)
    if found is None:
        return None
    kind, text = found
    return Message(
        kind=kind,
        namespace=event.namespace,
        name=event.name,
        workload=event.kind,
        queue=event.queue,
        gpus=event.gpus,
        text=text,
        user=event.user,
    )


def _kind_and_text(
    event: JobEvent, waited_s: float | None, ran_s: float | None
) -> tuple[str, str] | None:
    match event.what:
        case "started" | "resumed":
            again = "again " if event.what == "resumed" else ""
            long = waited_s is not None and waited_s >= 1
            after = f", after {spoken(waited_s or 0.0)} of waiting" if long else ""
            return "started", f"{again}on {_nodes(event.nodes)}{after}"
        case "waits":
            why = event.message or event.reason or "no reason is known yet"
            return "waiting", f"for {spoken(waited_s or 0.0)}: {why}"
        case "evicted":
            return "evicted", _why_out(event)
        case "interrupted":
            why = event.message or "its pods failed or were deleted"
            return "evicted", f"{why}; it is in the queue again"
        case "suspended" if event.reason:
            return "evicted", _why_out(event)
        case "warned":
            return "idle", event.message or event.reason
        case "ended":
            ran = f" after running for {spoken(ran_s)}" if ran_s is not None else ""
            said = event.message.removeprefix(f"{event.reason}: ")
            why = f": {said}" if said and event.reason == "Failed" else ""
            return ("failed" if event.reason == "Failed" else "ended"), f"{event.reason}{ran}{why}"
    return None


def _why_out(event: JobEvent) -> str:
    why = event.message or event.reason
    if event.for_whom and event.for_whom not in why:
        return f"{why} (for {event.for_whom})" if why else f"for {event.for_whom}"
    return why


def _nodes(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return "its nodes"
    few = ", ".join(nodes[:_FEW])
    more = f" and {len(nodes) - _FEW} more" if len(nodes) > _FEW else ""
    return f"{few}{more}"

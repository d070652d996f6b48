"""Conditions and events of objects, as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Object
from kai_ray.console import shapes
from kai_ray.console.asking import Ask

#: Events of one object that are shown at most.
MOST = 100


def conditions_of(obj: Object) -> list[shapes.Condition]:
    return [
        shapes.Condition(
            type=str(c.get("type") or ""),
            status=str(c.get("status") or ""),
            reason=str(c.get("reason") or ""),
            message=str(c.get("message") or ""),
            since=str(c.get("lastTransitionTime") or ""),
        )
        for c in (obj.get("status") or {}).get("conditions") or ()
    ]


def events_of(ask: Ask, *objects: Object) -> list[shapes.Event]:
    """Newest first; the same news about several of the objects is told once.

    They are read with the viewer's own rights: who may not list events sees none.
    """
    port = ask.port
    found: dict[tuple[str, str, str], shapes.Event] = {}
    for obj in objects:
        meta = obj["metadata"]
        fields = f"involvedObject.kind={obj.get('kind')},involvedObject.name={meta['name']}"
        try:
            page = port.list(R.EVENT, meta.get("namespace") or None, fields=fields, limit=500)
        except ApiError:
            continue
        for event in _about(page.items, meta.get("uid") or ""):
            shown = _shown(event)
            key = (shown.reason, shown.message, shown.at)
            found.setdefault(key, shown)
    return sorted(found.values(), key=lambda e: e.at, reverse=True)[:MOST]


def _about(events: Iterable[Object], uid: str) -> Iterable[Object]:
    return (e for e in events if (e.get("involvedObject") or {}).get("uid") in (None, "", uid))


def _shown(event: Object) -> shapes.Event:
    about = event.get("involvedObject") or {}
    series = event.get("series") or {}
    return shapes.Event(
        at=str(
            series.get("lastObservedTime")
            or event.get("lastTimestamp")
            or event.get("eventTime")
            or event["metadata"].get("creationTimestamp")
            or ""
        ),
        type=str(event.get("type") or "Normal"),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or event.get("note") or ""),
        count=int(series.get("count") or event.get("count") or 1),
        object=f"{about.get('kind')} {about.get('name')}",
    )

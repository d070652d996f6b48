"""Small objects, and waiting for what follows from a write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kai_ray.cluster.port import ApiError, NotFound, Object, Port, Resource, Watch, WatchEvent

PATIENCE_S = 10.0


def pod(ns: str, name: str = "", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "busybox:1.36"}
    meta: Object = {"namespace": ns, "labels": labels or {}}
    meta |= {"name": name} if name else {"generateName": "pod-"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **spec},
    }


def config(ns: str, name: str, *, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": ns} | ({"labels": labels} if labels else {}),
    } | ({"data": data} if data else {})


def owned_by(obj: Object, owner: Object, *, block: bool = False) -> Object:
    ref = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "ownerReferences": [*meta.get("ownerReferences", ()), ref]}}


def is_gone(port: Port, resource: Resource, name: str, ns: str = "") -> bool:
    try:
        port.get(resource, name, ns)
    except NotFound:
        return True
    return False


def eventually(done: Callable[[], bool]) -> bool:
    """Whether it comes true within a test's patience: servers may collect in the background."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def read(watch: Watch, count: int) -> list[WatchEvent]:
    """The next `count` events; fewer if they do not come."""
    found: list[WatchEvent] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        event = watch.next(0.2)
        if event is not None and event.type != "BOOKMARK":
            found.append(event)
    return found


def becomes(done: Callable[[], object]) -> bool:
    """Whether a call that is refused for a while succeeds in the end."""

    def tried() -> bool:
        try:
            done()
        except ApiError:
            return False
        return True

    return eventually(tried)


def quiet(watch: Watch) -> bool:
    """Whether nothing more comes."""
    event = watch.next(0.3)
    return event is None or event.type == "BOOKMARK"


def seen(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"]["name"]) for e in events]

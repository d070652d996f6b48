"""Garbage collection by owner references, in the same call as the write that caused it.

An object whose owners are all gone is deleted; one that still has an owner only loses the dead
references. Owners are told apart by UID; an owner of a kind that is not served counts as present.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from kai_ray.cluster.port import Object

from . import deletion
from .kinds import Served
from .state import Location

if TYPE_CHECKING:
    from .store import MemoryStore


class Collector:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._todo: deque[Location] = deque()
        self._running = False

    def changed(self, location: Location, kind: str, old: Object | None, new: Object) -> None:
        """Takes in one commit; works off what follows before it returns (never recursively)."""
        meta = new["metadata"]
        state = self._store.state
        if kind == "DELETED":
            self._todo.extend(state.dependents(meta["uid"]))
            for ref in meta.get("ownerReferences") or ():
                owner = state.find_uid(ref["uid"])
                if owner is not None and _waits(state.get(owner)):
                    self._todo.append(owner)
            if location[1].namespace:
                deletion.emptied(self._store, location[1].namespace)
        else:
            owners = meta.get("ownerReferences")
            before = old["metadata"].get("ownerReferences") if old is not None else None
            if (owners and owners != before) or "deletionTimestamp" in meta:
                self._todo.append(location)
        if self._running:
            return
        self._running = True
        try:
            while self._todo:
                self._visit(self._todo.popleft())
        finally:
            self._running = False

    def _visit(self, location: Location) -> None:
        obj = self._store.state.get(location)
        served = self._served(location)
        if obj is None or served is None:
            return
        if "deletionTimestamp" in obj["metadata"]:
            self._visit_deleting(location, obj, served)
        elif obj["metadata"].get("ownerReferences"):
            self._visit_owned(location, obj, served)

    def _served(self, location: Location) -> Served | None:
        versions = self._store.kinds.by_plural(*location[0])
        return next(iter(versions.values()), None)

    def _visit_deleting(self, location: Location, obj: Object, served: Served) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        uid = obj["metadata"]["uid"]
        if deletion.ORPHAN in finalizers:
            for dependent in self._store.state.dependents(uid):
                self._disown(dependent, {uid})
            deletion.drop_finalizer(self._store, served, obj, deletion.ORPHAN)
        elif deletion.FOREGROUND in finalizers:
            blocking = False
            for dependent in self._store.state.dependents(uid):
                child = self._store.state.get(dependent)
                if child is None:
                    continue
                if "deletionTimestamp" not in child["metadata"]:
                    self._todo.append(dependent)
                blocking |= any(
                    ref["uid"] == uid and ref.get("blockOwnerDeletion")
                    for ref in child["metadata"]["ownerReferences"]
                )
            if not blocking:
                deletion.drop_finalizer(self._store, served, obj, deletion.FOREGROUND)

    def _visit_owned(self, location: Location, obj: Object, served: Served) -> None:
        solid, dead, waiting = 0, set[str](), set[str]()
        for ref in obj["metadata"]["ownerReferences"]:
            owner = self._owner(location, ref)
            if owner is None:
                dead.add(ref["uid"])
            elif owner and _waits(owner):
                waiting.add(ref["uid"])
            else:
                solid += 1
        if not dead and not waiting:
            return
        if solid:
            self._disown(location, dead | waiting)
        elif waiting and self._store.state.dependents(obj["metadata"]["uid"]):
            deletion.delete(self._store, served, obj, None, "Foreground")
        else:
            deletion.delete(self._store, served, obj, None, "Background")

    def _owner(self, location: Location, ref: dict[str, Any]) -> Object | None:
        """The owner; {} if its kind is unknown here and it cannot be judged; None if it is gone."""
        where = self._store.kinds.tables_of_kind(ref["apiVersion"], ref["kind"])
        if where is None:
            return {}
        found = self._store.state.find_uid(ref["uid"])
        if found is None or found[0] != where or found[1].name != ref["name"]:
            return None
        if found[1].namespace and found[1].namespace != location[1].namespace:
            return None
        return self._store.state.get(found)

    def _disown(self, location: Location, uids: set[str]) -> None:
        obj, served = self._store.state.get(location), self._served(location)
        if obj is None or served is None:
            return
        meta = dict(obj["metadata"])
        rest = [ref for ref in meta.get("ownerReferences") or () if ref["uid"] not in uids]
        if rest:
            meta["ownerReferences"] = rest
        else:
            meta.pop("ownerReferences", None)
        deletion.put(self._store, served, obj, {**obj, "metadata": meta})


def _waits(obj: Object | None) -> bool:
    """Whether an object is being deleted in the foreground."""
    return (
        obj is not None
        and "deletionTimestamp" in obj.get("metadata", {})
        and deletion.FOREGROUND in (obj["metadata"].get("finalizers") or ())
    )

"""The state of the store: objects, versions, owners, history, watches. No rules of the API here."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from kai_ray.cluster.port import ApiError, Key, Object

from .log import Change, History, Watcher

GroupPlural = tuple[str, str]
Location = tuple[GroupPlural, Key]

#: etcd's limit on one request.
LARGEST_OBJECT_BYTES = 1_572_864

_encode = msgspec.json.Encoder().encode


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class Journal(Protocol):
    """Where committed changes are kept so that a restart finds them."""

    def put(self, table: GroupPlural, key: Key, version: int, body: bytes) -> None: ...
    def drop(self, table: GroupPlural, key: Key, version: int) -> None: ...
    def close(self) -> None: ...


class Table:
    """The objects of one resource (all versions share it)."""

    def __init__(self, history: History) -> None:
        self.objects: dict[Key, Object] = {}
        self.history = history
        self.watchers: list[Watcher] = []
        self._sorted: list[Key] | None = None

    def keys(self, namespace: str | None = None) -> list[Key]:
        """Keys in order of namespace and name."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        if namespace is None:
            return self._sorted
        start = bisect_left(self._sorted, Key(namespace, ""))
        end = bisect_left(self._sorted, Key(namespace + "\0", ""))
        return self._sorted[start:end]

    def put(self, key: Key, obj: Object) -> None:
        if key not in self.objects:
            self._sorted = None
        self.objects[key] = obj

    def pop(self, key: Key) -> None:
        del self.objects[key]
        self._sorted = None

    def at(self, version: int) -> dict[Key, Object | None]:
        """What differed at an earlier version: key -> object then (None: absent); or Gone."""
        then: dict[Key, Object | None] = {}
        for change in reversed(self.history.since(version)):
            then[change.key] = change.old
        return then


class State:
    """All tables under one lock and one counter of versions."""

    def __init__(self, history_size: int, journal: Journal | None = None) -> None:
        self.lock = threading.RLock()
        self.version = 1
        self.journal = journal
        self._history_size = history_size
        self._floor = 0
        self._tables: dict[GroupPlural, Table] = {}
        self._where: dict[str, Location] = {}
        self._dependents: dict[str, dict[Location, None]] = {}
        self._population: dict[str, int] = {}

    def table(self, name: GroupPlural) -> Table:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = Table(History(self._history_size, self._floor))
        return found

    def tables(self) -> Iterator[tuple[GroupPlural, Table]]:
        yield from list(self._tables.items())

    def get(self, location: Location) -> Object | None:
        return self.table(location[0]).objects.get(location[1])

    def find_uid(self, uid: str) -> Location | None:
        return self._where.get(uid)

    def dependents(self, uid: str) -> list[Location]:
        """Objects that name `uid` among their owners."""
        return list(self._dependents.get(uid, ()))

    def population(self, namespace: str) -> int:
        """How many objects a namespace holds."""
        return self._population.get(namespace, 0)

    def commit(
        self,
        location: Location,
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        old: Object | None,
        new: Object,
    ) -> Object:
        """Stores the change under the next version and tells the watches. `new` becomes shared."""
        name, key = location
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.version + 1)}}
        body = _encode(new)
        if kind != "DELETED" and len(body) > LARGEST_OBJECT_BYTES:
            raise TooLarge(
                f"{name[1]} {key.name!r} is {len(body)} bytes; the limit is {LARGEST_OBJECT_BYTES}"
            )
        if self.journal is not None:
            if kind == "DELETED":
                self.journal.drop(name, key, self.version + 1)
            else:
                self.journal.put(name, key, self.version + 1, body)
        self.version += 1
        table = self.table(name)
        self._index(location, old, None if kind == "DELETED" else new)
        if kind == "DELETED":
            table.pop(key)
        else:
            table.put(key, new)
        change = Change(self.version, kind, key, old, new)
        table.history.add(change)
        for watcher in list(table.watchers):
            watcher.offer(change)
        return new

    def restore(self, version: int, rows: Iterator[tuple[GroupPlural, Key, Object]]) -> None:
        """Takes over what a journal kept. Versions before `version` are gone for watches."""
        self.version = self._floor = version
        for name, key, obj in rows:
            self.table(name).put(key, obj)
            self._index((name, key), None, obj)

    def _index(self, location: Location, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._where.pop(old["metadata"]["uid"], None)
            self._count(location[1].namespace, -1)
        elif old is None and new is not None:
            self._where[new["metadata"]["uid"]] = location
            self._count(location[1].namespace, +1)
        before = old["metadata"].get("ownerReferences") if old is not None else None
        after = new["metadata"].get("ownerReferences") if new is not None else None
        if before == after:
            return
        for ref in before or ():
            members = self._dependents.get(ref["uid"])
            if members is not None:
                members.pop(location, None)
                if not members:
                    del self._dependents[ref["uid"]]
        for ref in after or ():
            self._dependents.setdefault(ref["uid"], {})[location] = None

    def _count(self, namespace: str, by: int) -> None:
        if namespace:
            left = self._population.get(namespace, 0) + by
            if left:
                self._population[namespace] = left
            else:
                self._population.pop(namespace, None)

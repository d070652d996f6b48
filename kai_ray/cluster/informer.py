"""The cache of one resource: filled by a list or a watch's initial events, kept by the watch.

A cache says how old its news are: decisions are made on fresh ones only. A kind that the server
does not serve is an empty cache that is looked for again now and then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from .port import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    Key,
    NotFound,
    Object,
    Port,
    Resource,
    Watch,
    WatchEvent,
    WatchLists,
    key_of,
)

#: (old, new): old is None for an addition, new is None for a deletion.
Handler = Callable[[Object | None, Object | None], None]
Index = Callable[[Object], Iterable[str]]

PAGE = 500
RETRY_FIRST_S, RETRY_LAST_S = 0.2, 8.0
#: A kind that is not served, or that we may not read, is tried again after this long.
ABSENT_S = 30.0
#: The annotation of the bookmark that ends the initial events of a watch.
INITIAL_END = "k8s.io/initial-events-end"
#: A kind that cannot be listed keeps the others waiting for so many tries.
_TRIES = 3
_NEVER = float("inf")


class Informer:
    """Objects are shared: never change them. `pump` does all the work, in its caller's thread."""

    def __init__(self, resource: Resource, wake: Callable[[], None]) -> None:
        self.resource = resource
        self.problem = ""
        """Why there is no watch, in the server's words."""
        self._wake = wake
        self._objects: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._indexers: dict[str, Index] = {}
        self._indices: dict[str, dict[str, dict[Key, Object]]] = {}
        self._watch: Watch | None = None
        self._version = ""
        self._arriving: dict[Key, Object] | None = None  # initial events, until they are complete
        self._streams = True  # whether a watch may bring its initial events; unsure at first
        self._filled = False
        self._failures = 0
        self._absent = False
        self._again_s = -_NEVER
        self._resync_s = _NEVER

    # ------------------------------------------------------------------ how good it is

    @property
    def connected(self) -> bool:
        """Whether a watch is open and all it began with is here: else the cache only grows old."""
        return self._watch is not None and self._arriving is None

    @property
    def absent(self) -> bool:
        """Whether the server does not serve the kind, or does not let us see it."""
        return self._absent

    @property
    def settled(self) -> bool:
        """Whether it has been filled once, or it is known why that does not happen."""
        return self._filled or self._absent or self._failures >= _TRIES

    @property
    def again_s(self) -> float:
        """When the next attempt to connect is due; infinite while connected."""
        return _NEVER if self._watch is not None else self._again_s

    def age_s(self) -> float:
        """Seconds since the server last said anything about this kind; infinite without a watch."""
        return self._watch.silent_s() if self._watch is not None and self.connected else _NEVER

    # ------------------------------------------------------------------ reading

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._objects.get(Key(namespace, name))

    def list(self, namespace: str | None = None) -> list[Object]:
        if namespace is None:
            return list(self._objects.values())
        return [o for k, o in self._objects.items() if k.namespace == namespace]

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def add_index(self, name: str, index: Index) -> None:
        """Adds an index once; later calls with the same name are ignored."""
        if name in self._indexers:
            return
        self._indexers[name] = index
        table: dict[str, dict[Key, Object]] = defaultdict(dict)
        for key, obj in self._objects.items():
            for value in index(obj):
                table[value][key] = obj
        self._indices[name] = table

    def by_index(self, name: str, value: str) -> list[Object]:
        return list(self._indices[name].get(value, {}).values())

    def on_change(self, handler: Handler) -> None:
        """Called for every later change, and now for every object already known."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            handler(None, obj)

    # ------------------------------------------------------------------ keeping up

    def pump(self, port: Port, now: float, resync_every_s: float = _NEVER) -> int:
        """Takes in what the watch has; the number of changes. Reopens or relists as needed.

        Raises ApiError when that fails; the next attempt is made from `again_s` on.
        """
        if now >= self._resync_s:
            self.close()  # what a watch may have missed, a list heals
        if self._watch is None and now < self._again_s:
            return 0
        try:
            taken = self._pump(port)
        except ApiError as error:
            self._failed(error, now)
            raise
        if self.connected and self._resync_s == _NEVER:
            self._resync_s = now + resync_every_s
            self._failures, self._absent, self.problem = 0, False, ""
            self._filled = True
        return taken

    def _pump(self, port: Port) -> int:
        taken = 0
        for _ in range(2):
            try:
                if self._watch is None:
                    taken += self._start(port)
                return taken + self._take_all()
            except Gone:
                self.close()
        raise Gone(f"{self.resource.plural}: the versions of a list are gone before it is read")

    def _take_all(self) -> int:
        assert self._watch is not None
        taken = 0
        while (event := self._watch.next(0.0)) is not None:
            if self._arriving is not None:
                taken += self._arrive(event, self._arriving)
                continue
            self._version = event.object["metadata"].get("resourceVersion", self._version)
            if event.type == "BOOKMARK":
                continue
            self._put(key_of(event.object), None if event.type == "DELETED" else event.object)
            taken += 1
        return taken

    def _start(self, port: Port) -> int:
        """Lists and watches, in one stream where the server can. Changes against the cache."""
        if self._streams and isinstance(port, WatchLists):
            try:
                self._watch = port.watch_list(self.resource, on_event=self._wake)
                self._arriving = {}
                return 0
            except (BadRequest, Invalid, Forbidden):
                self._streams = False  # an older server: whatever is wrong, the list tells
        found, self._version = self._listed(port)
        taken = self._replace(found)
        self._watch = port.watch(self.resource, resource_version=self._version, on_event=self._wake)
        return taken

    def _listed(self, port: Port) -> tuple[dict[Key, Object], str]:
        found: dict[Key, Object] = {}
        token = ""
        while True:
            page = port.list(self.resource, limit=PAGE, continue_token=token)
            for obj in page.items:
                found[key_of(obj)] = obj
            token = page.continue_token
            if not token:
                return found, page.resource_version

    def _arrive(self, event: WatchEvent, arriving: dict[Key, Object]) -> int:
        """One of the initial events; the last one replaces the cache."""
        obj = event.object
        if event.type != "BOOKMARK":
            key = key_of(obj)
            if event.type == "DELETED":
                arriving.pop(key, None)
            else:
                known = self._objects.get(key)
                same = known is not None and _version(known) == _version(obj)
                arriving[key] = known if known is not None and same else obj
            return 0
        self._version = obj["metadata"].get("resourceVersion", self._version)
        if (obj["metadata"].get("annotations") or {}).get(INITIAL_END) != "true":
            return 0
        self._arriving = None
        return self._replace(arriving)

    def _replace(self, found: dict[Key, Object]) -> int:
        taken = 0
        for key in [k for k in self._objects if k not in found]:
            self._put(key, None)
            taken += 1
        for key, obj in found.items():
            old = self._objects.get(key)
            if old is None or _version(old) != _version(obj):
                self._put(key, obj)
                taken += 1
        return taken

    def _failed(self, error: ApiError, now: float) -> None:
        self.close()
        self.problem = error.message
        self._absent = isinstance(error, NotFound | Forbidden)
        if isinstance(error, NotFound):
            self._replace({})  # the kind itself is gone
        wait_s = ABSENT_S if self._absent else RETRY_FIRST_S * 2 ** min(self._failures, 20)
        self._failures += 1
        self._again_s = now + min(wait_s, RETRY_LAST_S)

    def look_again(self) -> None:
        """Tries at the next pump, for a kind that may have come to be served."""
        if self._watch is None:
            self._again_s = -_NEVER

    def remember(self, obj: Object) -> None:
        """Takes in the answer to one's own write, so that the next read is not older than it."""
        key = key_of(obj)
        old = self._objects.get(key)
        if old is None or _newer(obj, old):
            self._put(key, obj)

    def close(self) -> None:
        self._arriving = None
        self._resync_s = _NEVER
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _put(self, key: Key, new: Object | None) -> None:
        old = self._objects.get(key)
        if new is not None and old is not None and _newer(old, new):
            return
        if new is None:
            if old is None:
                return
            del self._objects[key]
        else:
            self._objects[key] = new
        for name, index in self._indexers.items():
            table = self._indices[name]
            if old is not None:
                for value in index(old):
                    members = table.get(value)
                    if members is not None:
                        members.pop(key, None)
                        if not members:
                            del table[value]
            if new is not None:
                for value in index(new):
                    table.setdefault(value, {})[key] = new
        for handler in self._handlers:
            handler(old, new)


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion", "")


def _newer(a: Object, b: Object) -> bool:
    """Whether `a` is known to be newer than `b` (same UID, numerically larger version)."""
    va, vb = _version(a), _version(b)
    return (
        a["metadata"].get("uid") == b["metadata"].get("uid")
        and va.isdigit()
        and vb.isdigit()
        and int(va) > int(vb)
    )

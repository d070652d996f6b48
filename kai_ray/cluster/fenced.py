"""A port that writes only while its process leads, and says by whose right it grants.

Looking at the clock before each write stops a leader that has slept. It cannot stop one that sleeps
between the look and the write: for that, what grants something carries the term it was decided in,
and the API server refuses other terms than the lease's own (`kai_ray/manager/fence.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kai_ray.api import labels as names

from . import resources as kinds
from .port import ApiError, Object, Page, Port, Resource, Watch, WatchLists, Write


class NotLeading(ApiError):
    """The write was not sent: another process may lead by now."""

    code, reason = 409, "NotLeading"


class FencedPort:
    """`Port` for one term. `may_write` is asked before every write; reads go through.

    `term` names lease and term, as "namespace/name/3"; "" where nobody else can lead.
    """

    def __init__(self, port: Port, may_write: Callable[[], bool], term: Callable[[], str]) -> None:
        self._port = port
        self._may_write = may_write
        self._term = term

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._port.get(resource, name, namespace)

    def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page:
        return self._port.list(resource, namespace, **options)

    def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> Watch:
        return self._port.watch(resource, namespace, **options)

    def create(self, resource: Resource, obj: Object, **options: Any) -> Object:
        self._check()
        if resource == kinds.BIND_REQUEST:
            meta = obj["metadata"]
            notes = self._stamped(meta.get("annotations"))
            obj = {**obj, "metadata": {**meta, "annotations": notes}}
        return self._port.create(resource, obj, **options)

    def update(self, resource: Resource, obj: Object, **options: Any) -> Object:
        self._check()
        return self._port.update(resource, obj, **options)

    def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", **options: Any
    ) -> Object:
        self._check()
        return self._port.patch(resource, name, patch, namespace, **options)

    def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Object | None:
        self._check()
        return self._port.delete(resource, name, namespace, **options)

    def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        annotations: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        self._check()
        notes = self._stamped(annotations) or None
        self._port.bind(namespace, pod, node, annotations=notes, **options)

    def evict(self, namespace: str, pod: str, **options: Any) -> None:
        self._check()
        self._port.evict(namespace, pod, **options)

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        """The calls are methods of this port: each is checked when its turn comes."""
        return self._port.batch(writes)

    def _check(self) -> None:
        if not self._may_write():
            raise NotLeading("this process does not hold the lease (any more)")

    def _stamped(self, annotations: dict[str, str] | None) -> dict[str, str]:
        term = self._term()
        return {**(annotations or {}), **({names.TERM: term} if term else {})}


class _FencedStreams(FencedPort):
    """The same over a port whose watches can begin with all that is there."""

    def __init__(
        self, port: Port, may_write: Callable[[], bool], term: Callable[[], str], lists: WatchLists
    ) -> None:
        super().__init__(port, may_write, term)
        self._lists = lists

    def watch_list(
        self, resource: Resource, *, on_event: Callable[[], None] | None = None
    ) -> Watch:
        return self._lists.watch_list(resource, on_event=on_event)


def fenced(port: Port, may_write: Callable[[], bool], term: Callable[[], str]) -> FencedPort:
    """`port` behind that fence."""
    if isinstance(port, WatchLists):
        return _FencedStreams(port, may_write, term, port)
    return FencedPort(port, may_write, term)

"""The one protocol to the world. Adapters: the memory store, its REST face, a real API server.

Objects are plain JSON dictionaries as Kubernetes defines them. What a read or a watch returns is
shared and must not be changed: copy before editing (`copy.deepcopy`). What is given to a write is
copied by the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

Object = dict[str, Any]
PatchType = Literal["json", "merge", "strategic", "apply"]


class Resource(NamedTuple):
    """A kind the API serves. `group` is "" for core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Key(NamedTuple):
    """Identity inside one resource. `namespace` is "" for cluster-scoped objects."""

    namespace: str
    name: str


def key_of(obj: Object) -> Key:
    meta = obj["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


class ApiError(Exception):
    """A refusal in the API's own words: `code` is the HTTP status, `reason` the Status reason."""

    code = 500
    reason = "InternalError"

    def __init__(self, message: str, *, details: Object | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Invalid(ApiError):
    """`details["causes"]` lists {reason, message, field}."""

    code, reason = 422, "Invalid"


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Gone(ApiError):
    """The watch's or the page's resource version has been compacted: list again."""

    code, reason = 410, "Expired"


class TooManyRequests(ApiError):
    """An eviction that a budget refuses, or a busy server; `retry_after_s` may be set."""

    code, reason = 429, "TooManyRequests"
    retry_after_s: float | None = None


class Unavailable(ApiError):
    """No answer: connection lost, time-out, 5xx. The write may or may not have happened."""

    code, reason = 503, "ServiceUnavailable"


class Page(NamedTuple):
    items: list[Object]
    resource_version: str
    continue_token: str = ""


class WatchEvent(NamedTuple):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


class Watch(Protocol):
    """Changes after a resource version. Raises Gone from `next` when that was compacted."""

    def next(self, timeout_s: float = 0.0) -> WatchEvent | None:
        """The next event, or None if none came within `timeout_s`."""
        ...

    def silent_s(self) -> float:
        """Seconds since the server last said anything here; 0 where no wire is in between."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class WatchLists(Protocol):
    """A port whose watches can begin with all that is there."""

    def watch_list(
        self, resource: Resource, *, on_event: Callable[[], None] | None = None
    ) -> Watch:
        """ADDED for every object, then a BOOKMARK annotated `k8s.io/initial-events-end`, then news.

        As recent as a list without a version. Raises BadRequest, Invalid or Forbidden where the
        server cannot, Gone (from `next`) when the stream ends before that bookmark.
        """
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a batch. `call` is a bound method of the port: `Write(port.bind, (...))`."""

    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None


class Port(Protocol):
    """What controllers may do to the world."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Page:
        """`namespace` None: all. `labels`, `fields`: selectors as kubectl takes them."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        on_event: Callable[[], None] | None = None,
    ) -> Watch:
        """`on_event` is called (from any thread) when `next` would have something to say."""
        ...

    def create(
        self, resource: Resource, obj: Object, *, dry_run: bool = False, field_manager: str = ""
    ) -> Object: ...

    def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """Replaces; refuses with Conflict if `metadata.resourceVersion` is set and stale."""
        ...

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object: ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_s: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Object | None:
        """Deletes, or marks for deletion while finalizers or a grace period remain."""
        ...

    def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        resource_version: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """pods/binding. Labels and annotations land on the pod. Conflict if it has a node, or if
        it is not the pod (`uid`) or not the state of it (`resource_version`) that was meant."""
        ...

    def evict(self, namespace: str, pod: str, *, uid: str = "", grace_s: int | None = None) -> None:
        """pods/eviction: honours disruption budgets (TooManyRequests)."""
        ...

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        """Runs writes side by side where the adapter can; result i is a value or an ApiError."""
        ...


def unheard(warning: str) -> None:
    """Where nobody listens to warnings."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write on its way in, as an admission plugin sees it. The objects are its to edit."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    resource: Resource
    subresource: str
    object: Object  # the new state; the old one for DELETE
    old: Object | None
    user: str
    dry_run: bool
    warn: Callable[[str], None] = unheard  # tells who wrote, whatever is decided


class Admission(Protocol):
    """Runs inside the embedded API server before a write is stored (mutate, then validate).

    Sees creates, updates and deletes of whole objects, not of subresources. A plugin may carry
    `resources`, a set of Resource: it is asked only about those.
    """

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        """The object to store. Raises Invalid or Forbidden to refuse. Must not write."""
        ...

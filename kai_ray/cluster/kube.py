"""The port over HTTP: the REST face of the embedded cluster, or a real Kubernetes API server.

Raw JSON over urllib3 with msgspec; the stock client's models cost fifty times as much per object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from . import kubeconfig
from .kube_http import ATTEMPTS, READ_TIMEOUT_S, Transport
from .kube_lean import Decode, decoder
from .kube_watch import SILENCE_S, HttpWatch
from .kubeconfig import Connection
from .port import ApiError, Object, Page, PatchType, Resource, Watch, Write
from .resources import POD

FIELD_MANAGER = "kai-ray"
CONNECTIONS = 16
BESIDE = 24  # requests of other threads than those of `batch`, whose connections are kept too
PATCH_CONTENT: Mapping[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


def connect(path: str | None = None, context: str | None = None) -> KubePort:
    """The cluster that kubectl would talk to. Raises KubeconfigError; does not call the server."""
    return KubePort(kubeconfig.load(path, context))


class KubePort:
    """`Port` over HTTP. Safe from any thread; `close` it when done.

    `silence_s`: every watch is heard of within this time, or its stream is taken for dead.
    `timeout_s`, `attempts`: how long and how often one request is tried. `lean`: lists and watches
    bring objects without what no decision reads (`kube_lean.py`), for long-lived caches.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int = CONNECTIONS,
        silence_s: float = SILENCE_S,
        timeout_s: float = READ_TIMEOUT_S,
        attempts: int = ATTEMPTS,
        lean: bool = False,
    ) -> None:
        self.connection = connection
        self._lean = lean
        self._silence_s = silence_s
        self._transport = Transport(
            connection, connections + BESIDE, timeout_s=timeout_s, attempts=attempts
        )
        self._workers: ThreadPoolExecutor | None = None
        self._workers_lock = threading.Lock()
        self._connections = connections

    @property
    def namespace(self) -> str:
        """The namespace that the kubeconfig's context names, else "default"."""
        return self.connection.namespace

    def on_warning(self, tell: Callable[[str], None]) -> None:
        """`tell` is called with what the server says beside a success (Warning headers)."""
        self._transport.on_warning = tell

    def close(self) -> None:
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    def raw(self, method: str, path: str, body: Any = None) -> Any:
        """Any request of the server, by its path: version, discovery, reviews."""
        data = None if body is None else msgspec.json.encode(body)
        answer = self._transport.send(method, path, body=data)
        try:
            return msgspec.json.decode(answer)
        except msgspec.DecodeError:
            return answer.decode("utf-8", "replace")

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self._call("GET", path_of(resource, namespace, name))

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
        query = _query(labelSelector=labels, fieldSelector=fields)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        path = path_of(resource, namespace)
        answer = self._transport.send("GET", path, query=query)
        try:
            page = _PAGE.decode(answer)
            decode = self._decoder(resource)
            items = [decode(bytes(item)) for item in page.items or ()]
        except msgspec.DecodeError as error:
            raise self._not_an_api("GET", path) from error
        about = page.metadata or {}
        return Page(
            _with_kind(resource, items),
            about.get("resourceVersion", ""),
            about.get("continue") or "",
        )

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
        query = _query(labelSelector=labels, fieldSelector=fields)
        path = path_of(resource, namespace)
        return HttpWatch(
            self._transport,
            path,
            query,
            resource_version,
            on_event,
            silence_s=self._silence_s,
            decode=self._decoder(resource),
        )

    def watch_list(
        self, resource: Resource, *, on_event: Callable[[], None] | None = None
    ) -> Watch:
        return HttpWatch(
            self._transport,
            path_of(resource),
            {},
            "",
            on_event,
            initial=True,
            silence_s=self._silence_s,
            decode=self._decoder(resource),
        )

    def create(
        self, resource: Resource, obj: Object, *, dry_run: bool = False, field_manager: str = ""
    ) -> Object:
        path = path_of(resource, _namespace(resource, obj))
        return self._call("POST", path, _write_query(dry_run, field_manager), _typed(resource, obj))

    def update(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> Object:
        name = obj["metadata"]["name"]
        path = path_of(resource, _namespace(resource, obj), name, subresource)
        return self._call("PUT", path, _write_query(dry_run, field_manager), _typed(resource, obj))

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
    ) -> Object:
        query = _write_query(dry_run, field_manager)
        if force:
            query["force"] = "true"
        path = path_of(resource, namespace, name, subresource)
        return self._call("PATCH", path, query, patch, PATCH_CONTENT[patch_type])

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
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid or resource_version:
            options["preconditions"] = _query(uid=uid, resourceVersion=resource_version)
        if dry_run:
            options["dryRun"] = ["All"]
        answer = self._call("DELETE", path_of(resource, namespace, name), None, options)
        return None if answer.get("kind") == "Status" else answer

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
        about: Object = {"name": pod, "namespace": namespace}
        if uid:
            about["uid"] = uid
        if resource_version:
            about["resourceVersion"] = resource_version
        if labels:
            about["labels"] = labels
        if annotations:
            about["annotations"] = annotations
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": about,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._call("POST", path_of(POD, namespace, pod, "binding"), None, binding)

    def evict(self, namespace: str, pod: str, *, uid: str = "", grace_s: int | None = None) -> None:
        options: Object = {}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        # A budget that is spent is the caller's news, not a reason to wait here.
        path = path_of(POD, namespace, pod, "eviction")
        self._call("POST", path, None, eviction, patient=False)

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        if len(writes) < 2:
            return [_result(write) for write in writes]
        with self._workers_lock:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(self._connections, "kube-write")
        return list(self._workers.map(_result, writes))

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        *,
        patient: bool = True,
    ) -> Object:
        data = None if body is None else msgspec.json.encode(body)
        answer = self._transport.send(
            method, path, query=query, body=data, content_type=content_type, patient=patient
        )
        try:
            return msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise self._not_an_api(method, path) from error

    def _decoder(self, resource: Resource) -> Decode:
        return decoder(resource) if self._lean else msgspec.json.decode

    def _not_an_api(self, method: str, path: str) -> ApiError:
        return ApiError(
            f"{method} {path}: the answer is not JSON; is "
            f"{self.connection.server} a Kubernetes API server?"
        )


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: dict[str, Any] | None = None


_PAGE = msgspec.json.Decoder(_Page)


def path_of(
    resource: Resource, namespace: str | None = None, name: str = "", subresource: str = ""
) -> str:
    """The URL path of a collection, an object or a subresource. `namespace` None: all of them."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", "v1"]
    if resource.namespaced and namespace is not None:
        parts += ["namespaces", namespace or "default"]
    parts.append(resource.plural)
    parts += [part for part in (name, subresource) if part]
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _namespace(resource: Resource, obj: Object) -> str | None:
    return (obj.get("metadata") or {}).get("namespace") or "" if resource.namespaced else None


def _typed(resource: Resource, obj: Object) -> Object:
    """With apiVersion and kind, which a real server wants to read in custom resources."""
    if "kind" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _with_kind(resource: Resource, items: list[Object]) -> list[Object]:
    """Items of a real server's list do not say what they are: the list does."""
    if not items or "kind" in items[0]:
        return items
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [head | item for item in items]


def _query(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _write_query(dry_run: bool, field_manager: str) -> dict[str, str]:
    query = {"fieldManager": field_manager or FIELD_MANAGER}
    if dry_run:
        query["dryRun"] = "All"
    return query


def _result(write: Write) -> Any:
    try:
        return write.call(*write.args, **(write.kwargs or {}))
    except ApiError as error:
        return error

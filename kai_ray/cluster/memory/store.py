"""An API server in memory: the port's methods with Kubernetes' semantics.

One lock, one counter of versions; thread-safe. What reads return is shared with the store and must
not be changed. Writes are checked in the API server's order: decode, defaults, admission,
validation, commit; what follows from a commit (collection of dependents, namespaces that empty,
kinds that appear) happens before the call returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import Clock, SystemClock, rfc3339
from kai_ray.cluster.port import (
    Admission,
    AdmissionRequest,
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Key,
    NotFound,
    Object,
    Page,
    PatchType,
    Resource,
    WatchEvent,
    Write,
)
from kai_ray.cluster.selectors import matcher

from . import crds, defaults, deletion, meta, patching, subresources, validation, wire
from .collect import Collector
from .copying import clone
from .expiry import EventExpiry
from .identity import current_user, current_warn
from .kinds import Registry, Served
from .log import Watcher
from .paging import page
from .persist import open_journal
from .state import Location, State

HISTORY = 8192


class MemoryStore:
    """The embedded API server's storage and rules.

    `admission` plugins see creates, updates and deletes of whole objects (not of subresources). A
    plugin may carry `resources`, a set of Resource, to be asked only about those.
    `state_path` names an SQLite file that survives a kill; `seed` makes UIDs and generated names
    repeatable.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        admission: Sequence[Admission] = (),
        state_path: str | Path | None = None,
        *,
        seed: int | None = None,
        history: int = HISTORY,
    ) -> None:
        self.clock = clock or SystemClock()
        self.admission = list(admission)
        self.kinds = Registry()
        self.state = State(history)
        self.lock = self.state.lock
        self.collector = Collector(self)
        self.expiry = EventExpiry(self)
        if state_path is not None:
            journal, version, rows = open_journal(Path(state_path))
            self.state.restore(version, iter(rows))
            self.state.journal = journal
            for definition in self.state.table((r.CRD.group, r.CRD.plural)).objects.values():
                crds.register(self.kinds, definition)
        self.namer = meta.Namer(seed, self.state.version)

    def close(self) -> None:
        """Ends all watches and closes the state file."""
        with self.lock:
            for _, table in self.state.tables():
                for watcher in list(table.watchers):
                    watcher.close()
            if self.state.journal is not None:
                self.state.journal.close()
                self.state.journal = None

    # --- reading ---------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The newest resource version."""
        return str(self.state.version)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        served = self.kinds.find(resource)
        return served.present(self.stored(served, name, namespace))

    def stored(self, served: Served, name: str, namespace: str) -> Object:
        """The stored object itself; raises NotFound."""
        key = Key(namespace if served.resource.namespaced else "", name)
        found = self.state.table(served.group_plural).objects.get(key)
        if found is None:
            raise meta.not_found(served, name)
        return found

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
        served = self.kinds.find(resource)
        match = matcher(labels, fields, served.fields)
        with self.lock:
            table = self.state.table(served.group_plural)
            found, version, token = page(self.state, table, namespace, match, limit, continue_token)
        return Page([served.present(obj) for obj in found], str(version), token)

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        on_event: Callable[[], None] | None = None,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> Watcher:
        """Without a version (or with "0") the watch begins with the present objects as additions.

        `initial_events` True does so at any version and marks their end with a bookmark that
        carries the annotation `k8s.io/initial-events-end`; `bookmarks` also sends one now and then
        on a quiet watch. Raises Gone if changes after `resource_version` are forgotten.
        """
        served = self.kinds.find(resource)
        match = matcher(labels, fields, served.fields)
        fresh = resource_version in ("", "0")
        if not fresh and not resource_version.isdigit():
            raise BadRequest(f"resourceVersion {resource_version!r} is no version: list first")
        with self.lock:
            table = self.state.table(served.group_plural)
            if not fresh and int(resource_version) > self.state.version:
                # A client of the state that was here before: it would wait for ever.
                raise Gone(
                    f"resource version {resource_version} is newer than the newest here "
                    f"({self.state.version}): list again"
                )
            changes = [] if fresh else table.history.since(int(resource_version))
            watcher = Watcher(
                namespace,
                match,
                on_event,
                served.present,
                lambda w: self._forget(table.watchers, w),
                (lambda: self._bookmark(served)) if bookmarks else None,
            )
            if initial_events or (initial_events is None and fresh):
                watcher.start([table.objects[key] for key in table.keys(namespace)])
            else:
                for change in changes:
                    watcher.offer(change)
            if initial_events:
                watcher.put(self._bookmark(served, end=True))
            table.watchers.append(watcher)
        return watcher

    def _forget(self, watchers: list[Watcher], watcher: Watcher) -> None:
        with self.lock:
            if watcher in watchers:
                watchers.remove(watcher)

    def _bookmark(self, served: Served, *, end: bool = False) -> WatchEvent:
        metadata: Object = {"resourceVersion": self.version}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        res = served.resource
        return WatchEvent(
            "BOOKMARK", {"apiVersion": res.api_version, "kind": res.kind, "metadata": metadata}
        )

    def compact(self) -> None:
        """Forgets all history: watches from older versions get Gone."""
        with self.lock:
            for _, table in self.state.tables():
                table.history.compact(self.state.version)

    # --- writing ---------------------------------------------------------------------------

    def create(
        self, resource: Resource, obj: Object, *, dry_run: bool = False, field_manager: str = ""
    ) -> Object:
        served = self.kinds.find(resource)
        new = clone(obj)
        if not isinstance(new, dict):
            raise BadRequest("an object is expected")
        with self.lock:
            return served.present(self.create_own(served, new, dry_run=dry_run))

    def create_own(
        self, served: Served, new: Object, *, dry_run: bool = False, managed: Any = None
    ) -> Object:
        """`create` for an object that the store may keep; under the lock.

        `managed`: the managedFields of an applied object.
        """
        meta.check_type(served, new)
        wire.check(served, new)
        meta.for_create(served, new, self.namer, self.now())
        if served.resource.namespaced:
            self._check_namespace(new["metadata"]["namespace"], new["metadata"]["name"], served)
        defaults.for_create(served, new, self)
        new = self.admit("CREATE", served, new, None, dry_run)
        defaults.after_admission(served, new, self)
        validation.check(served, new, None)
        key = _key(served, new)
        while key in self.state.table(served.group_plural).objects:
            base = new["metadata"].get("generateName")
            if not base or not new["metadata"]["name"].startswith(base[:58]):
                raise AlreadyExists(
                    f"{served.resource.plural} {key.name!r} already exists",
                    details={"name": key.name, "kind": served.resource.plural},
                )
            new["metadata"]["name"] = self.namer.name(base)
            key = _key(served, new)
        new = served.to_store(new)
        if managed:
            new["metadata"]["managedFields"] = managed
        if dry_run:
            return new
        return self.commit(served, key, "ADDED", None, new)

    def update(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> Object:
        served = self.kinds.find(resource)
        new = clone(obj)
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise BadRequest("an object with metadata is expected")
        if subresource != "scale":
            wire.check(served, new)
        name, namespace = new["metadata"].get("name", ""), new["metadata"].get("namespace", "")
        with self.lock:
            old = self.stored(served, name, namespace)
            if subresource == "scale":
                return subresources.set_scale(self, served, old, new, dry_run, field_manager)
            new = self.replace(
                served, old, new, subresource=subresource, dry_run=dry_run, manager=field_manager
            )
            return served.present(new)

    def replace(
        self,
        served: Served,
        old: Object,
        new: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: str = "",
        applied: bool = False,
    ) -> Object:
        """Puts `new` (its top level and metadata are ours, the rest may be shared) over `old`."""
        new = {**new, "metadata": {**new["metadata"]}}
        wire.check(served, new)
        meta.for_update(served, served.present(old), new)
        new = subresources.separate(served, old, new, subresource)
        defaults.for_update(served, new, old, self)
        if not applied:
            patching.note_update(served, old, new, manager, subresource, self.now())
        if not subresource:
            new = self.admit("UPDATE", served, new, old, dry_run)
        validation.check(served, new, old, subresource)
        new = served.to_store(new)
        if served.generation and not subresource and _spec_changed(old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if new == old:
            return old
        if dry_run:
            return new
        key = _key(served, new)
        if deletion.is_done(new):
            return self.commit(served, key, "DELETED", old, new)
        return self.commit(served, key, "MODIFIED", old, new)

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
        served = self.kinds.find(resource)
        with self.lock:
            key = Key(namespace if served.resource.namespaced else "", name)
            old = self.state.table(served.group_plural).objects.get(key)
            if patch_type == "apply":
                new = patching.apply(
                    self, served, old, key, patch, subresource, field_manager, force, dry_run
                )
                return served.present(new)
            if old is None:
                raise meta.not_found(served, name)
            if subresource == "scale":
                return subresources.patch_scale(
                    self, served, old, patch, patch_type, dry_run, field_manager
                )
            new = patching.patched(served, served.present(old), patch, patch_type)
            new = self.replace(
                served, old, new, subresource=subresource, dry_run=dry_run, manager=field_manager
            )
            return served.present(new)

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
        served = self.kinds.find(resource)
        with self.lock:
            old = self.stored(served, name, namespace)
            meta.check_preconditions(served, old, uid, resource_version)
            self.admit("DELETE", served, old, old, dry_run)
            if dry_run:
                return old
            return deletion.delete(self, served, old, grace_s, propagation)

    def delete_collection(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        grace_s: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        dry_run: bool = False,
    ) -> list[Object]:
        """Deletes what the selectors match; returns what was matched."""
        with self.lock:
            found = self.list(resource, namespace, labels=labels, fields=fields).items
            for obj in found:
                key = Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
                try:
                    self.delete(
                        resource,
                        key.name,
                        key.namespace,
                        grace_s=grace_s,
                        propagation=propagation,
                        dry_run=dry_run,
                    )
                except NotFound:
                    continue  # went with its owner, earlier in this loop
            return found

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
        dry_run: bool = False,
    ) -> None:
        meant = subresources.Meant(uid, resource_version)
        subresources.bind(self, namespace, pod, node, meant, labels, annotations, dry_run)

    def evict(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        subresources.evict(self, namespace, pod, uid, grace_s, dry_run)

    def get_scale(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The autoscaling/v1 Scale of an object."""
        served = self.kinds.find(resource)
        return subresources.scale_of(served, self.stored(served, name, namespace))

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        results: list[Any] = []
        for write in writes:
            try:
                results.append(write.call(*write.args, **(write.kwargs or {})))
            except ApiError as error:
                results.append(error)
        return results

    # --- for the parts of the store ----------------------------------------------------------

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def commit(
        self,
        served: Served,
        key: Key,
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        old: Object | None,
        new: Object,
    ) -> Object:
        """Stores a checked object and does what follows from it."""
        location: Location = (served.group_plural, key)
        new = self.state.commit(location, kind, old, new)
        if served.group_plural == ("apiextensions.k8s.io", "customresourcedefinitions"):
            crds.changed(self, kind, old, new)
        elif served.group_plural == ("", "namespaces"):
            deletion.namespace_changed(self, kind, new)
        elif kind == "ADDED" and served.group_plural == ("", "events"):
            self.expiry.created()
        self.collector.changed(location, kind, old, new)
        return new

    def admit(
        self,
        operation: Literal["CREATE", "UPDATE", "DELETE"],
        served: Served,
        new: Object,
        old: Object | None,
        dry_run: bool,
    ) -> Object:
        user, warn = current_user(), current_warn()
        for plugin in self.admission:
            only = getattr(plugin, "resources", None)
            if only is not None and served.resource not in only:
                continue
            own = new if operation == "CREATE" else clone(new)
            request = AdmissionRequest(
                operation, served.resource, "", own, old, user, dry_run, warn
            )
            new = plugin.admit(request, self)
        return new

    def _check_namespace(self, namespace: str, name: str, served: Served) -> None:
        found = self.state.get((("", "namespaces"), Key("", namespace)))
        if found is None:
            raise NotFound(
                f'namespaces "{namespace}" not found',
                details={"name": namespace, "kind": "namespaces"},
            )
        if found["metadata"].get("deletionTimestamp"):
            raise Forbidden(
                f'{served.resource.plural} "{name}" is forbidden: unable to create new content in '
                f"namespace {namespace} because it is being terminated",
                details={
                    "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
                },
            )


def _key(served: Served, obj: Object) -> Key:
    return Key(
        obj["metadata"]["namespace"] if served.resource.namespaced else "", obj["metadata"]["name"]
    )


def _spec_changed(old: Object, new: Object) -> bool:
    skip = ("metadata", "status", "apiVersion")
    return any(old.get(k) != new.get(k) for k in {*old, *new} if k not in skip)

"""The four kinds of patch on a stored object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kai_ray.cluster.port import ApiError, BadRequest, Key, NotFound, Object, PatchType

from . import apply as ssa
from . import wire
from .copying import clone, merge_patch
from .kinds import Served
from .patch_json import json_patch
from .patch_strategic import strategic_merge
from .shapes import shape_of

if TYPE_CHECKING:
    from .store import MemoryStore


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


def patched(served: Served, obj: Object, patch: Any, patch_type: PatchType) -> Object:
    """The object after a merge, JSON or strategic-merge patch; `obj` is not changed."""
    if patch_type == "json":
        new = json_patch(obj, patch)
    elif not isinstance(patch, dict):
        raise BadRequest(f"a {patch_type} patch is an object")
    elif patch_type == "merge":
        new = merge_patch(obj, patch)
    elif patch_type == "strategic":
        if not served.builtin:
            raise UnsupportedMediaType(
                "custom resources take no strategic-merge patch: use merge, json or apply"
            )
        new = strategic_merge(obj, patch, shape_of(served))
    else:
        raise BadRequest(f"patch type {patch_type!r}: use json, merge, strategic or apply")
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise BadRequest("after the patch the object has no metadata")
    return new


def note_update(
    served: Served, old: Object, new: Object, manager: str, subresource: str, now: str
) -> None:
    """Moves the ownership of changed fields to the manager that updated them.

    Kept only for objects that somebody has applied; an empty list given by the client clears it.
    """
    given = new["metadata"].get("managedFields")
    had = old["metadata"].get("managedFields")
    if not had or given == []:
        new["metadata"].pop("managedFields", None)
        return
    new["metadata"]["managedFields"] = had
    if new != old:
        new["metadata"] = ssa.after_update(old, new, shape_of(served), manager, subresource, now)[
            "metadata"
        ]


def apply(
    store: MemoryStore,
    served: Served,
    old: Object | None,
    key: Key,
    patch: Any,
    subresource: str,
    manager: str,
    force: bool,
    dry_run: bool,
) -> Object:
    """Server-side apply: creates what is missing. Raises Conflict for fields that others own."""
    ssa.check_manager(manager)
    config = clone(patch)
    if not isinstance(config, dict) or not isinstance(config.get("metadata", {}), dict):
        raise BadRequest("an apply patch is an object with apiVersion, kind and metadata")
    obj: Object = config
    _check_identity(served, obj, key)
    wire.check(served, obj)
    shape = shape_of(served)
    if old is None:
        if subresource:
            raise NotFound(f'{served.resource.plural} "{key.name}" not found')
        if obj["metadata"].pop("uid", ""):
            raise NotFound(
                f'{served.resource.plural} "{key.name}" not found: remove metadata.uid to create it'
            )
        entries = ssa.created_by(obj, shape, manager, subresource, store.now())
        return store.create_own(
            served, obj, dry_run=dry_run, managed=entries["metadata"].get("managedFields")
        )
    live = {**old, "apiVersion": served.resource.api_version}
    new = ssa.merged(live, obj, shape, manager, subresource, store.now(), force=force)
    return store.replace(served, old, new, subresource=subresource, dry_run=dry_run, applied=True)


def _check_identity(served: Served, obj: Object, key: Key) -> None:
    res = served.resource
    if obj.get("apiVersion") != res.api_version or obj.get("kind") != res.kind:
        raise BadRequest(
            f"an apply patch says apiVersion {res.api_version!r} and kind {res.kind!r}, "
            f"not {obj.get('apiVersion')!r} and {obj.get('kind')!r}"
        )
    meta = obj.setdefault("metadata", {})
    if meta.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil in an apply patch")
    meta.pop("managedFields", None)
    if meta.setdefault("name", key.name) != key.name:
        raise BadRequest(f"metadata.name {meta['name']!r} does not match {key.name!r}")
    if res.namespaced and meta.setdefault("namespace", key.namespace) != key.namespace:
        raise BadRequest(
            f"metadata.namespace {meta['namespace']!r} does not match {key.namespace!r}"
        )

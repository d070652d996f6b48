"""The four kinds of patch on a stored object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kai_ray.cluster.port import ApiError, BadRequest, Key, Object, PatchType

from .copying import merge_patch
from .kinds import Served

if TYPE_CHECKING:
    from .store import MemoryStore


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


def patched(served: Served, obj: Object, patch: Any, patch_type: PatchType) -> Object:
    """The object after a merge, JSON or strategic-merge patch; `obj` is not changed."""
    if patch_type == "merge" or patch_type == "strategic":
        if not isinstance(patch, dict):
            raise BadRequest("a merge patch is an object")
        return merge_patch(obj, patch)
    raise BadRequest(f"patch type {patch_type!r} is not served")


def note_update(
    served: Served, old: Object, new: Object, manager: str, subresource: str, now: str
) -> None:
    """Moves the ownership of changed fields to the manager that updated them."""


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
    raise BadRequest("server-side apply is not served yet")

"""What may be submitted: files, text, dicts, our helpers, and objects of other Python clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from kai_ray.cluster.port import Object
from kai_ray.podgrouper.manifests import ManifestError, parse_documents
from kai_ray.sdk import manifests
from kai_ray.sdk.errors import InvalidManifest

#: Below this, floats are exact.
_EXACT = 2.0**53


@runtime_checkable
class HasManifest(Protocol):
    """Whatever knows its own manifest."""

    def manifest(self) -> Object: ...


Submittable: TypeAlias = (
    "str | Path | Mapping[str, Any] | HasManifest | Iterable[Mapping[str, Any] | HasManifest] | Any"
)


def manifests_of(what: Submittable) -> list[Object]:
    """The objects that are meant, each with what every object has. Raises InvalidManifest."""
    if isinstance(what, Path) or (isinstance(what, str) and not _is_text(what)):
        return [document.object for document in manifests.read([str(what)])]
    if isinstance(what, str):
        try:
            found = [document.object for document in parse_documents(what, "the given text")]
        except ManifestError as error:
            raise InvalidManifest(str(error)) from error
    elif isinstance(what, list | tuple | set | frozenset):
        found = [manifest for item in what for manifest in manifests_of(item)]
    else:
        found = _unfolded(_manifest(what))
    if not found:
        raise InvalidManifest("there is no object to submit")
    for obj in found:
        manifests.check(obj)
    return found


def _is_text(text: str) -> bool:
    """Whether a string is a manifest and not the name of a file."""
    return "\n" in text or text.lstrip().startswith("{")


def _unfolded(obj: Object) -> list[Object]:
    """A List is its items."""
    if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        return list(obj["items"])
    return [obj]


def _manifest(what: Any) -> Object:
    """The manifest of one object, by what it can do."""
    if isinstance(what, Mapping):
        return _plain(what)
    if isinstance(what, HasManifest):
        return what.manifest()
    if hasattr(what, "attribute_map") and hasattr(what, "openapi_types"):
        return _of_generated(what)  # kubernetes, kubeflow-training
    if hasattr(what, "model_dump"):
        return what.model_dump(mode="json", by_alias=True, exclude_none=True)  # kubeflow
    for name in ("to_dict", "raw", "obj"):
        held = getattr(what, name, None)
        found = held() if callable(held) else held
        if isinstance(found, Mapping):
            return _plain(found)
    raise InvalidManifest(
        f"a {type(what).__name__} cannot be submitted",
        python="give a dict, a file, YAML text, or a helper such as kai_ray.RayJob",
    )


def _plain(value: Any) -> Any:
    """Dicts and lists of their own, so that what the caller holds is not changed.

    Whole numbers are integers: what went through protobuf (KFP's parameters) has only floats, and
    the API server takes no 2.0 for a count.
    """
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "attribute_map") and hasattr(value, "openapi_types"):
        return _of_generated(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def _of_generated(model: Any) -> Object:
    """A model of a client that OpenAPI's generator wrote: its fields under their names in JSON."""
    found: Object = {}
    for attribute, name in model.attribute_map.items():
        value = getattr(model, attribute)
        if value is not None:
            found[name] = _plain(value)
    return found

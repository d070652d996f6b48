"""CustomResourceDefinitions: what one adds to the kinds that are served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kai_ray.cluster.port import Object, Resource

from .kinds import Registry, ScalePaths, Served
from .meta import Cause, cause
from .schema import Schema

if TYPE_CHECKING:
    from .store import MemoryStore


def register(kinds: Registry, crd: Object) -> None:
    """Serves (or serves anew) the versions of a definition."""
    spec = crd["spec"]
    group, names = spec["group"], spec["names"]
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    served = [_served(spec, names, v, storage) for v in spec["versions"] if v.get("served")]
    kinds.put((group, names["plural"]), served)


def _served(spec: Object, names: Object, version: Object, storage: str) -> Served:
    openapi = (version.get("schema") or {}).get("openAPIV3Schema") or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Served(
        resource=Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            spec["scope"] == "Namespaced",
        ),
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=ScalePaths(
            scale["specReplicasPath"].strip("."),
            scale["statusReplicasPath"].strip("."),
            (scale.get("labelSelectorPath") or "").strip("."),
        )
        if scale
        else None,
        generation=True,
        fields=frozenset(f["jsonPath"].strip(".") for f in version.get("selectableFields") or ()),
        schema=Schema(openapi, root=True),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        openapi=openapi,
        storage_version=storage,
    )


def set_defaults(crd: Object, now: str) -> None:
    """Fills the names of a definition and the conditions that say it is served."""
    spec: Any = crd.get("spec")
    if not isinstance(spec, dict) or not isinstance(names := spec.get("names"), dict):
        return
    names.setdefault("singular", str(names.get("kind", "")).lower())
    names.setdefault("listKind", f"{names.get('kind', '')}List")
    spec.setdefault("conversion", {"strategy": "None"})
    versions: list[Any] = spec.get("versions") or []
    crd["status"] = {
        "acceptedNames": dict(names),
        "storedVersions": [
            v.get("name") for v in versions if isinstance(v, dict) and v.get("storage")
        ],
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
    }


def check(crd: Object) -> Iterator[Cause]:
    """What is wrong with a definition."""
    spec: Any = crd.get("spec")
    if not isinstance(spec, dict):
        yield cause("spec", "Required value", "FieldValueRequired")
        return
    group, names = spec.get("group"), spec.get("names")
    if not isinstance(group, str) or "." not in group:
        yield cause("spec.group", "should be a domain with at least one dot")
    if not isinstance(names, dict) or not names.get("plural") or not names.get("kind"):
        yield cause("spec.names", "plural and kind are required", "FieldValueRequired")
        return
    if crd["metadata"]["name"] != f"{names['plural']}.{group}":
        yield cause("metadata.name", f"must be {names['plural']}.{group}")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield cause("spec.scope", "must be Namespaced or Cluster", "FieldValueNotSupported")
    versions: Any = spec.get("versions")
    if not isinstance(versions, list) or not versions:
        yield cause("spec.versions", "must have at least one version", "FieldValueRequired")
        return
    if sum(bool(isinstance(v, dict) and v.get("storage")) for v in versions) != 1:
        yield cause("spec.versions", "must have exactly one version marked as storage version")
    for i, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"spec.versions[{i}].schema.openAPIV3Schema"
        if not isinstance(schema, dict):
            yield cause(where, "schemas are required", "FieldValueRequired")
            continue
        try:
            Schema(schema, root=True)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield cause(where, f"Invalid value: {error}")


def changed(store: MemoryStore, kind: str, old: Object | None, new: Object) -> None:
    """Follows a committed definition; one that goes takes its objects along."""
    group, plural = new["spec"]["group"], new["spec"]["names"]["plural"]
    if kind != "DELETED":
        if old is None or old["spec"] != new["spec"]:
            register(store.kinds, new)
        return
    versions = store.kinds.by_plural(group, plural)
    table = store.state.table((group, plural))
    for served in list(versions.values())[:1]:
        for key in list(table.keys()):
            obj = table.objects.get(key)
            if obj is not None:
                meta = {k: v for k, v in obj["metadata"].items() if k != "finalizers"}
                store.commit(served, key, "DELETED", obj, {**obj, "metadata": meta})
    for watcher in list(table.watchers):
        watcher.close()
    store.kinds.put((group, plural), [])

"""CustomResourceDefinitions generated from the structs.

`crds()` are KAI's own kinds, with bounds, patterns and CEL rules. `workload_crds()` are the kinds
of Ray, Kubeflow and JobSet for the embedded cluster: what we read is typed, all else is kept.
"""

from __future__ import annotations

from functools import cache
from typing import cast

import msgspec

from . import descriptions
from .core import ObjectMeta, PodTemplate
from .crd_definitions import OWN, REQUIRED, RULES, WORKLOADS, Column, Definition, Json

_LIST_KEYS = {
    "conditions": ["type"],
    "subGroups": ["name"],
    "workerGroupSpecs": ["groupName"],
    "replicatedJobs": ["name"],
}


def crds() -> list[Json]:
    """Manifests of KAI's own kinds."""
    return [_manifest(d) for d in OWN]


def workload_crds() -> list[Json]:
    """Manifests of the workload kinds that the stand-in operators serve."""
    return [_manifest(d) for d in WORKLOADS]


def _manifest(d: Definition) -> Json:
    kind = d.kind or d.type.__name__
    names: Json = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": d.plural,
        "singular": kind.lower(),
    }
    if d.short_names:
        names["shortNames"] = list(d.short_names)
    if d.categories:
        names["categories"] = list(d.categories)
    version: Json = {
        "name": d.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(d.type, keep_unknown=d.open)},
        "additionalPrinterColumns": [_column(c) for c in d.columns],
    }
    if d.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in d.selectable]
    subresources: Json = {"status": {}} if d.status else {}
    if d.scale:
        subresources["scale"] = d.scale
    if subresources:
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{d.plural}.{d.group}",
            "labels": {"app.kubernetes.io/part-of": "kai-ray"},
        },
        "spec": {
            "group": d.group,
            "names": names,
            "scope": "Namespaced" if d.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> Json:
    name, kind, path, *priority = column
    return {"name": name, "type": kind, "jsonPath": path} | (
        {"priority": priority[0]} if priority else {}
    )


@cache
def schema_of(struct: type, *, keep_unknown: bool = False) -> Json:
    """The structural OpenAPI v3 schema of a whole object. Shared: copy it before editing."""
    (ref,), components = msgspec.json.schema_components((struct,), ref_template="{name}")
    return _Inliner(components, struct, keep_unknown).root(ref["$ref"])


class _Inliner:
    """Turns JSON schema components into one structural schema without references."""

    def __init__(self, components: dict[str, Json], struct: type, keep_unknown: bool) -> None:
        self._components = components
        self._keep = keep_unknown
        self._required = {t.__name__: names for t, names in REQUIRED.items()}
        self._rules = {t.__name__: rules for t, rules in RULES.items()}
        self._texts = {t.__name__: texts for t, texts in descriptions.FIELDS.items()}

    def root(self, name: str) -> Json:
        schema = self._object(self._components[name], name)
        schema["properties"] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
        } | schema["properties"]
        for key, text in descriptions.ROOT.items():
            if key in schema["properties"]:
                schema["properties"][key].setdefault("description", text)
        if "spec" in schema["properties"]:
            schema["required"] = ["spec"]
        schema.pop("x-kubernetes-preserve-unknown-fields", None)
        return schema

    def _node(self, node: Json, field: str) -> Json:
        if "$ref" in node:
            name = node["$ref"]
            described = {k: node[k] for k in ("description",) if k in node}
            return self._named(name) | described
        out = {k: v for k, v in node.items() if k not in ("title", "default", "anyOf", "x-default")}
        if "x-default" in node:
            out["default"] = node["x-default"]
        if "anyOf" in node:
            return self._union(node["anyOf"], field) | out
        if "exclusiveMinimum" in out:
            out |= {"minimum": out["exclusiveMinimum"], "exclusiveMinimum": True}
        if "enum" in out:
            out.setdefault("type", "string")
        if out.get("type") == "array":
            out["items"] = self._node(cast(Json, out.get("items") or {}), "")
            if keys := _LIST_KEYS.get(field):
                out |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
                self._require(out["items"], keys)
        if out.get("type") == "object":
            out = self._object(out, "")
        if not set(out) - {"description"}:
            out["x-kubernetes-preserve-unknown-fields"] = True
        return out

    def _require(self, item: Json, keys: list[str]) -> None:
        """The keys of a list map must be required or have a default."""
        required = [
            *item.get("required", ()),
            *(k for k in keys if k not in item.get("required", ())),
        ]
        if item.get("properties"):
            item["required"] = required

    def _union(self, parts: list[Json], field: str) -> Json:
        some = [p for p in parts if p.get("type") != "null"]
        nullable: Json = {"nullable": True} if len(some) < len(parts) else {}
        kinds = {p.get("type") for p in some}
        if len(some) == 1:
            return self._node(some[0], field) | nullable
        if kinds <= {"string", "integer", "number"}:
            return {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            } | nullable
        raise TypeError(f"field {field!r}: a union of {sorted(map(str, kinds))} has no CRD schema")

    def _named(self, name: str) -> Json:
        if name == ObjectMeta.__name__:
            return {"type": "object"} | (
                {"x-kubernetes-preserve-unknown-fields": True} if self._keep else {}
            )
        if name == PodTemplate.__name__:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return self._object(self._components[name], name)

    def _object(self, node: Json, name: str) -> Json:
        out: Json = {"type": "object"}
        if "description" in node:
            out["description"] = " ".join(node["description"].split())
        extra = node.get("additionalProperties")
        properties: dict[str, Json] = node.get("properties") or {}
        if isinstance(extra, dict) and extra:
            out["additionalProperties"] = self._node(cast(Json, extra), "")
        elif not properties or self._keep:
            out["x-kubernetes-preserve-unknown-fields"] = True
        if properties:
            out["properties"] = {
                k: {"type": "object"} if k == "metadata" and name in _ROOTS else self._node(v, k)
                for k, v in properties.items()
            }
            for key, text in self._texts.get(name, {}).items():
                out["properties"][key] |= {"description": text}
        required = [r for r in node.get("required") or () if r != "metadata"]
        required += self._required.get(name, [])
        if required:
            out["required"] = required
        if rules := self._rules.get(name):
            out["x-kubernetes-validations"] = [dict(r) for r in rules]
        return out


_ROOTS = {d.type.__name__ for d in (*OWN, *WORKLOADS)}

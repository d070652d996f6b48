"""Schemas of the built-in kinds, read off the typed models of the `kubernetes` package.

The models know every field of every kind with its words, which our own lean structs do not. The
package is imported when a schema is first asked for, never at start. Where it has no model for a
kind (another release), the kind is described as an open object.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from kai_ray.cluster.port import Object, Resource

PREFIX = "io.k8s.api."
OBJECT_META = f"{PREFIX}v1.ObjectMeta"
LIST_META = f"{PREFIX}v1.ListMeta"
STATUS = f"{PREFIX}v1.Status"
DELETE_OPTIONS = f"{PREFIX}v1.DeleteOptions"

_PLAIN: dict[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "bytes": {"type": "string", "format": "byte"},
    "object": {"x-kubernetes-preserve-unknown-fields": True},
}
_INT_OR_STRING = {
    "port",
    "targetPort",
    "maxSurge",
    "maxUnavailable",
    "minAvailable",
}
_OF = re.compile(r"^(list|dict)[\[(](?:str, )?(.+)[\])]$", re.IGNORECASE)
_MODEL = re.compile(r"^(?P<prefix>[A-Za-z]*?)(?P<version>V\d+(?:(?:alpha|beta)\d+)?)(?P<kind>.+)$")

#: How strategic merge patches join lists: (kind, field) -> merge key ("" for plain values).
MERGE_KEYS: dict[tuple[str, str], str] = {
    ("ObjectMeta", "ownerReferences"): "uid",
    ("ObjectMeta", "finalizers"): "",
    ("PodSpec", "containers"): "name",
    ("PodSpec", "initContainers"): "name",
    ("PodSpec", "ephemeralContainers"): "name",
    ("PodSpec", "volumes"): "name",
    ("PodSpec", "imagePullSecrets"): "name",
    ("PodSpec", "hostAliases"): "ip",
    ("PodSpec", "topologySpreadConstraints"): "topologyKey",
    ("PodSpec", "schedulingGates"): "name",
    ("PodSpec", "resourceClaims"): "name",
    ("ResourceRequirements", "claims"): "name",
    ("PodStatus", "podIPs"): "ip",
    ("PodStatus", "hostIPs"): "ip",
    ("PodStatus", "resourceClaimStatuses"): "name",
    ("ResourceClaimStatus", "reservedFor"): "uid",
    ("NodeStatus", "addresses"): "type",
    ("NodeSpec", "podCIDRs"): "",
    ("ServiceSpec", "ports"): "port",
    ("ServiceAccount", "secrets"): "name",
} | {
    (kind, field): key
    for kind in ("Container", "EphemeralContainer")
    for field, key in (
        ("env", "name"),
        ("ports", "containerPort"),
        ("volumeMounts", "mountPath"),
        ("volumeDevices", "devicePath"),
    )
}
#: Patches of these replace what the patch does not name.
RETAIN_KEYS = {
    ("PodSpec", "volumes"),
    ("PodSpec", "resourceClaims"),
    ("PodStatus", "resourceClaimStatuses"),
    ("DeploymentSpec", "strategy"),
}


def component_of(resource: Resource) -> str | None:
    """The component's name of a built-in kind, None if the models do not know it."""
    version = resource.version[0].upper() + resource.version[1:]
    group = (resource.group.split(".")[0] or "core").capitalize()
    for model in (f"{version}{resource.kind}", f"{group}{version}{resource.kind}"):
        if hasattr(_models(), model):
            return component_name(model)
    return None


def component_name(model: str) -> str:
    """V1PodSpec -> io.k8s.api.v1.PodSpec; CoreV1Event -> io.k8s.api.core.v1.Event."""
    match = _MODEL.match(model)
    if match is None:
        return PREFIX + model
    parts = [match["prefix"].lower(), match["version"].lower(), match["kind"]]
    return PREFIX + ".".join(part for part in parts if part)


@cache
def schema(component: str) -> Object:
    """The schema of a component; references name components."""
    model = _model(component)
    if not hasattr(model, "attribute_map"):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = component.rpartition(".")[2]
    words, required = _words(model)
    properties = {
        json_name: _property(kind, json_name, model.openapi_types[attribute], words.get(attribute))
        for attribute, json_name in model.attribute_map.items()
    }
    made: Object = {"type": "object", "properties": properties}
    about = (model.__doc__ or "").strip().split("\n\n")[0].strip()
    if about and not about.startswith(("NOTE:", "Attributes:")):
        made["description"] = about
    missing = sorted(model.attribute_map[name] for name in required)
    if missing:
        made["required"] = missing
    return made


def reachable(components: set[str]) -> dict[str, Object]:
    """The schemas of components and of all they refer to."""
    found: dict[str, Object] = {}
    waiting = list(components)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = schema(name)
        waiting += references(found[name])
    return dict(sorted(found.items()))


def references(node: Any) -> list[str]:
    """Names of the components that a schema refers to."""
    if isinstance(node, list):
        return [name for item in node for name in references(item)]
    if not isinstance(node, dict):
        return []
    found = [name for value in node.values() for name in references(value)]
    target = node.get("$ref")
    if isinstance(target, str):
        found.append(target.rpartition("/")[2])
    return found


def ref(component: str) -> Object:
    return {"$ref": f"#/components/schemas/{component}"}


@cache
def _models() -> Any:
    from kubernetes.client import models

    return models


def _model(component: str) -> Any:
    """The model of a component, or None. Each is imported by itself: all of them take seconds."""
    parts = component.removeprefix(PREFIX).split(".")
    return getattr(_models(), "".join(p[0].upper() + p[1:] for p in parts if p), None)


def _property(kind: str, field: str, type_text: str, words: str | None) -> Object:
    made = _typed(type_text)
    if field in _INT_OR_STRING and type_text == "object":
        made = {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}
        made["x-kubernetes-int-or-string"] = True
    if "$ref" in made:
        # A reference stands alone in OpenAPI: what else is said of the field goes around it.
        made = {"allOf": [made], "default": {}}
    if words:
        made["description"] = words
    key = MERGE_KEYS.get((kind, field))
    if key is None and field == "conditions" and kind.endswith("Status"):
        key = "type"
    retain = (kind, field) in RETAIN_KEYS
    if key is not None:
        made["x-kubernetes-patch-strategy"] = "merge,retainKeys" if retain else "merge"
        if key:
            made["x-kubernetes-patch-merge-key"] = key
    elif retain:
        made["x-kubernetes-patch-strategy"] = "retainKeys"
    return made


def _typed(text: str) -> Object:
    if text in _PLAIN:
        return dict(_PLAIN[text])
    match = _OF.match(text)
    if match is None:
        return ref(component_name(text))
    inner = _typed(match[2])
    if match[1].lower() == "list":
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner}


def _words(model: Any) -> tuple[dict[str, str], list[str]]:
    """Descriptions by attribute, and the required attributes, from old and new forms of model."""
    fields = getattr(model, "model_fields", None)
    if fields:
        words = {name: field.description or "" for name, field in fields.items()}
        return words, [n for n, f in fields.items() if f.is_required() and n in model.attribute_map]
    words: dict[str, str] = {}
    for name in model.attribute_map:
        text = (getattr(model, name).__doc__ or "").split("\n\n")
        words[name] = " ".join(text[1].split()) if len(text) > 1 else ""
    return words, []

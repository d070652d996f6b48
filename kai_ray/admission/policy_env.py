"""The variables of a container that shares GPUs, as a mutating policy in CEL.

A policy can make up no name of a ConfigMap, so the variables refer to annotations that arrive with
the bind. The webhook, where it runs, comes after and puts ConfigMaps in their place.
"""

from __future__ import annotations

import json

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object
from kai_ray.gpu import environment

ENVIRONMENT = "kai-ray-gpu-environment"
_NOTES = "object.metadata.?annotations.orValue({})"
_ENV = "Object.spec.containers.env"


def spec(ours: str, unclaimed: str) -> Object:
    """Of a MutatingAdmissionPolicy. The expressions tell our pods, and those that may become ours.

    The policy that routes pods to us may come later, and a policy is asked again only if it matched
    before. So what may become ours matches too, and is left as it is until it has.
    """
    ours = f"has(object.spec.schedulerName) && {ours}"
    asked = f"'{names.GPU_FRACTION}' in {_NOTES} || '{names.GPU_MEMORY}' in {_NOTES}"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    return {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [pods | {"resources": ["pods"]}]},
        "matchConditions": [
            {"name": "ours", "expression": f"({ours}) || ({unclaimed})"},
            {"name": "shares", "expression": asked},
            {"name": "unwired", "expression": f"!('{names.SHARED_GPU_CONFIG}' in {_NOTES})"},
            {"name": "container", "expression": _there()},
        ],
        "variables": _variables(),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _patch(ours)}}],
    }


def _wanted() -> str:
    return f"{_NOTES}[?'{names.GPU_FRACTION_CONTAINER}'].orValue('')"


def _there() -> str:
    """The container that is named exists; else the policy that checks shares refuses the pod."""
    everyone = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    return f"{_wanted()} == '' || {everyone}.exists(c, c.name == {_wanted()})"


def _variables() -> list[Object]:
    of = "object.spec.?initContainers.orValue([])"
    return [
        {"name": "wanted", "expression": _wanted()},
        {"name": "early", "expression": f"{of}.exists(c, c.name == variables.wanted)"},
        {
            "name": "containers",
            "expression": f"variables.early ? {of} : object.spec.containers",
        },
        {
            "name": "at",
            "expression": "variables.wanted == '' ? 0 : "
            "variables.containers.map(c, c.name).indexOf(variables.wanted)",
        },
        {
            "name": "env",
            "expression": "variables.containers[variables.at].?env.orValue([])",
        },
        {
            "name": "path",
            "expression": "'/spec/' + (variables.early ? 'initContainers' : 'containers') + '/' "
            "+ string(variables.at) + '/env'",
        },
    ]


def _patch(ours: str) -> str:
    """Adds the list where there is none, then each variable that the container does not set."""
    empty = '[JSONPatch{op: "add", path: variables.path, value: []}]'
    parts = [f"(size(variables.env) == 0 ? {empty} : [])"]
    for entry in environment.by_annotations():
        name, field = entry["name"], entry["valueFrom"]["fieldRef"]["fieldPath"]
        source = (
            f"{_ENV}.valueFrom{{fieldRef: {_ENV}.valueFrom.fieldRef{{"
            f"fieldPath: {json.dumps(field)}}}}}"
        )
        made = f"{_ENV}{{name: {json.dumps(name)}, valueFrom: {source}}}"
        add = f'[JSONPatch{{op: "add", path: variables.path + "/-", value: {made}}}]'
        parts.append(f"(variables.env.exists(e, e.name == {json.dumps(name)}) ? [] : {add})")
    return f"({ours}) ? {' + '.join(parts)} : []"

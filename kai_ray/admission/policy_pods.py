"""What pods of ours may not ask for, as CEL: the rules of `kai_ray.encode.gpu_asks` and of names.

The words are those of the plugins that check the same, so that it does not matter who refuses.
"""

from __future__ import annotations

import json
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

SHARES = "kai-ray-gpu-shares"
NAMES = "kai-ray-pod-names"
FIXED = "kai-ray-bound-shares"

_PODS: Object = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
_NOTES = "object.metadata.?annotations.orValue({})"
_ASKS = [
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_DEVICES,
    names.GPU_FRACTION_CONTAINER,
    names.MPS,
]
_GPUS = ", ".join(f"'{name}'" for name in names.GPU_RESOURCES)
_WHOLE = (
    "(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, "
    "[c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(r, "
    f"r.exists(k, (k in [{_GPUS}] || k.startsWith('{names.MIG_PREFIX}')) "
    "&& string(r[k]) != '0')))"
)


def specs(ours: str) -> dict[str, Object]:
    """Name to spec. `ours` is the expression that tells our pods."""
    mine = {"name": "ours", "expression": f"has(object.spec.schedulerName) && {ours}"}
    return {
        SHARES: _shares(mine),
        NAMES: _names(mine),
        FIXED: _fixed(mine),
    }


def _shares(mine: Object) -> Object:
    asked = " || ".join(f"{key!r} in {_NOTES}" for key in _ASKS)
    legacy = f"!{_NOTES}.exists(k, k.startsWith('{names.MIG_PREFIX}'))"
    return {
        "matchConstraints": {"resourceRules": [_PODS | {"operations": ["CREATE"]}]},
        "matchConditions": [
            mine,
            {"name": "asks", "expression": asked},
            {"name": "current-form", "expression": legacy},
        ],
        "variables": [
            {"name": "notes", "expression": _NOTES},
            {"name": "fraction", "expression": f"'{names.GPU_FRACTION}' in variables.notes"},
            {"name": "memory", "expression": f"'{names.GPU_MEMORY}' in variables.notes"},
            {"name": "whole", "expression": _WHOLE},
            {"name": "key", "expression": _either(names.GPU_FRACTION, names.GPU_MEMORY)},
        ],
        "validations": [*_combinations(), *_amounts()],
    }


def _either(first: str, second: str) -> str:
    return f"variables.fraction ? '{first}' : '{second}'"


def _combinations() -> list[Object]:
    any_share = "variables.fraction || variables.memory"
    needs = f"needs {names.GPU_FRACTION} or {names.GPU_MEMORY} beside it"
    beside = f"cannot stand beside {names.GPU_FRACTION}: ask for a part or for memory, not both"
    whole = "cannot stand beside a request of whole GPUs or profiles: ask for a share or for those"
    container = (
        f"!({any_share}) || !('{names.GPU_FRACTION_CONTAINER}' in variables.notes) || "
        "(object.spec.containers + object.spec.?initContainers.orValue([]))"
        f".exists(c, c.name == variables.notes['{names.GPU_FRACTION_CONTAINER}'])"
    )
    no_container = " is no container of the pod: name one of them or leave it out"
    return [
        check(
            f"{any_share} || !('{names.GPU_FRACTION_DEVICES}' in variables.notes)",
            message=f"{field(names.GPU_FRACTION_DEVICES)}: {needs}",
        ),
        check(
            f"{any_share} || variables.notes[?'{names.MPS}'].orValue('').lowerAscii() != 'true'",
            message=f"{field(names.MPS)}: {needs}",
        ),
        check(
            "!(variables.fraction && variables.memory)",
            message=f"{field(names.GPU_MEMORY)}: {beside}",
        ),
        check(
            f"!({any_share}) || !variables.whole",
            expression=f"'metadata.annotations[' + variables.key + ']: {whole}'",
        ),
        check(container, expression=said(names.GPU_FRACTION_CONTAINER, no_container)),
    ]


def _amounts() -> list[Object]:
    fraction, memory = names.GPU_FRACTION, names.GPU_MEMORY
    devices = names.GPU_FRACTION_DEVICES
    number = f"double(variables.notes['{fraction}'])"
    plain = r"^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,3})?$"
    count = f"int(variables.notes['{devices}'])"
    return [
        check(
            f"!variables.fraction || (variables.notes['{fraction}'].matches({text(plain)}) "
            f"&& {number} > 0.0 && {number} < 1.0)",
            expression=said(
                fraction, " is no part of a GPU: write a decimal between 0 and 1, such as 0.5"
            ),
        ),
        check(
            f"!variables.memory || variables.notes['{memory}']"
            f".matches({text('^0{0,14}[1-9][0-9]{0,14}$')}) "
            f"&& size(variables.notes['{memory}']) <= 15",
            expression=said(memory, " is no amount of GPU memory: write whole MiB, such as 8000"),
        ),
        check(
            f"!(variables.fraction || variables.memory) || !('{devices}' in variables.notes) || "
            f"(variables.notes['{devices}'].matches('^[0-9]{{1,15}}$') && {count} >= 1 "
            f"&& {count} <= 1024)",
            expression=said(devices, " is no number of devices: write 1 to 1024"),
        ),
    ]


def _names(mine: Object) -> Object:
    """Names that no PodGroup could have. Labels are checked by the API server itself."""
    key = names.POD_GROUP
    pattern = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
    good = f"variables.notes['{key}'].matches('{pattern}')"
    return {
        "matchConstraints": {"resourceRules": [_PODS | {"operations": ["CREATE", "UPDATE"]}]},
        "matchConditions": [
            mine,
            {"name": "grouped", "expression": f"'{key}' in {_NOTES}"},
        ],
        "variables": [{"name": "notes", "expression": _NOTES}],
        "validations": [
            check(
                good,
                expression=said(key, " is not the name of a PodGroup: a DNS name is needed"),
            )
        ],
    }


def _fixed(mine: Object) -> Object:
    """A pod that has its place keeps what it was given the place for."""
    old = "oldObject.metadata.?annotations.orValue({})"
    keys = ", ".join(f"'{key}'" for key in _ASKS)
    return {
        "matchConstraints": {"resourceRules": [_PODS | {"operations": ["UPDATE"]}]},
        "matchConditions": [
            mine,
            {
                "name": "placed",
                "expression": "has(oldObject.spec.nodeName) && oldObject.spec.nodeName != ''",
            },
        ],
        "variables": [
            {"name": "notes", "expression": _NOTES},
            {"name": "old", "expression": old},
        ],
        "validations": [
            check(
                f"[{keys}].all(k, variables.notes[?k] == variables.old[?k])",
                expression=(
                    "'metadata.annotations[' + "
                    f"[{keys}].filter(k, variables.notes[?k] != variables.old[?k])[0] + "
                    "']: cannot change once the pod has a node: create another pod'"
                ),
            ),
        ],
    }


def check(rule: str, *, message: str = "", expression: str = "") -> Object:
    """One validation. `expression` says the words where they depend on the object."""
    words: Object = {"message": message} if message else {"messageExpression": expression}
    return {"expression": rule, **words, "reason": "Invalid"}


def field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def said(key: str, words: str) -> str:
    """A message expression: the field, what it holds (cut short), and the mend."""
    value = f"variables.notes['{key}']"
    shown = f"(size({value}) > 80 ? {value}.substring(0, 80) : {value})"
    return f'"{field(key)}: \'" + {shown} + "\'{words}"'


def text(value: Any) -> str:
    """A CEL literal."""
    return json.dumps(value)

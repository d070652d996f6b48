"""What makes a container, its resources or a volume malformed."""

from __future__ import annotations

import re
from typing import Any

from .meta import DNS_LABEL, Cause, cause
from .value_rules import (
    Json,
    amounts,
    is_extended,
    listed,
    required,
    unsupported,
    whole_number,
    wrong_type,
)

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_ENV = re.compile(r"[^=\x00-\x1f]+")


def _check_unique(name: Any, field: str, seen: set[str], causes: list[Cause]) -> None:
    if not name:
        causes.append(required(field))
    elif not isinstance(name, str):
        causes.append(wrong_type(field, name, "text"))
    elif len(name) > 63 or not DNS_LABEL.fullmatch(name):
        causes.append(
            cause(
                field,
                f"Invalid value: {name[:80]!r}: use at most 63 lower-case letters, digits and '-', "
                "beginning and ending with a letter or digit",
            )
        )
    elif name in seen:
        causes.append(cause(field, f"Duplicate value: {name!r}", "FieldValueDuplicate"))
    else:
        seen.add(name)


def check_volumes(spec: Json, field: str, causes: list[Cause]) -> set[str]:
    names: set[str] = set()
    for where, volume in listed(spec.get("volumes"), f"{field}.volumes", causes):
        _check_unique(volume.get("name"), f"{where}.name", names, causes)
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and not claim.get("claimName"):
            causes.append(required(f"{where}.persistentVolumeClaim.claimName"))
    return names


def check_container(
    c: Json, field: str, names: set[str], volumes: set[str], causes: list[Cause]
) -> None:
    _check_unique(c.get("name"), f"{field}.name", names, causes)
    image = c.get("image")
    if not isinstance(image, str) or not image.strip():
        causes.append(required(f"{field}.image", "an image is required"))
    for where, port in listed(c.get("ports"), f"{field}.ports", causes):
        if "containerPort" not in port:
            causes.append(required(f"{where}.containerPort"))
        whole_number(port.get("containerPort"), f"{where}.containerPort", causes, 1, 65535)
        whole_number(port.get("hostPort"), f"{where}.hostPort", causes, 0, 65535)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            causes.append(unsupported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    for where, env in listed(c.get("env"), f"{field}.env", causes):
        name, value = env.get("name"), env.get("value")
        if not isinstance(name, str) or not _ENV.fullmatch(name):
            causes.append(required(f"{where}.name", "a name without '=' is required"))
        if value is not None and not isinstance(value, str):
            causes.append(wrong_type(f"{where}.value", value, "text: quote it"))
    for where, mount in listed(c.get("volumeMounts"), f"{field}.volumeMounts", causes):
        if not mount.get("mountPath"):
            causes.append(required(f"{where}.mountPath"))
        if mount.get("name") not in volumes:
            causes.append(
                cause(
                    f"{where}.name",
                    f"Not found: {mount.get('name')!r}: add a volume of this name",
                    "FieldValueNotFound",
                )
            )
    for name in ("command", "args"):
        words = c.get(name)
        if words is not None and not (
            isinstance(words, list) and all(isinstance(w, str) for w in words)
        ):
            causes.append(wrong_type(f"{field}.{name}", words, "a list of text: quote each"))
    _check_resources(c.get("resources"), f"{field}.resources", causes)


def _check_resources(resources: Any, field: str, causes: list[Cause]) -> None:
    if resources is None:
        return
    if not isinstance(resources, dict):
        causes.append(wrong_type(field, resources, "an object with requests and limits"))
        return
    limits = amounts(resources.get("limits"), f"{field}.limits", causes)
    requests = amounts(resources.get("requests"), f"{field}.requests", causes)
    for name, wanted in requests.items():
        limit = limits.get(name)
        if limit is None:
            continue
        where = f"{field}.requests"
        if wanted > limit:
            shown = resources["requests"][name]
            causes.append(
                cause(
                    where,
                    f"Invalid value: {shown!r}: must be less than or equal to {name} limit of "
                    f"{resources['limits'][name]}",
                )
            )
        elif is_extended(name) and wanted != limit:
            causes.append(cause(where, f"must be equal to {name} limit"))

"""Devices of a node that are set aside: what the node's annotations say about them.

`kai.scheduler/bad-devices` is written by our own controller, which saw pods fail on a device or
read in a pod's status that it is unhealthy. `kai.scheduler/unhealthy-devices` is for whoever else
watches the hardware: names, separated by commas. A device is named by its UUID or index, or by the
name of the group that shares it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kai_ray.api import labels as names

_MOST = 64
_LONGEST = 253


class BadDevice(NamedTuple):
    """One device. `until` is when it is tried again, as RFC 3339; "" = not before somebody says."""

    name: str
    reason: str = ""
    until: str = ""


def read(annotations: Mapping[str, Any]) -> tuple[BadDevice, ...]:
    """In the order of names, each once. What cannot be read sets nothing aside."""
    if names.BAD_DEVICES not in annotations and names.UNHEALTHY_DEVICES not in annotations:
        return ()
    found = {device.name: device for device in _stated(annotations.get(names.UNHEALTHY_DEVICES))}
    found |= {device.name: device for device in marked(annotations)}
    return tuple(found[name] for name in sorted(found))[:_MOST]


def marked(annotations: Mapping[str, Any]) -> tuple[BadDevice, ...]:
    """Those that our controller has marked."""
    try:
        raw = json.loads(annotations.get(names.BAD_DEVICES) or "{}")
        return tuple(
            BadDevice(str(name), str(said.get("reason") or ""), str(said.get("until") or ""))
            for name, said in sorted(raw.items())
        )
    except (ValueError, TypeError, AttributeError):
        return ()


def written(devices: Mapping[str, BadDevice]) -> str | None:
    """The annotation that says so; None = none is to be there."""
    if not devices:
        return None
    said = {
        name: {"reason": device.reason, **({"until": device.until} if device.until else {})}
        for name, device in sorted(devices.items())
    }
    return json.dumps(said)


def _stated(text: Any) -> list[BadDevice]:
    if not isinstance(text, str):
        return []
    parts = [part.strip() for part in text.split(",")]
    reason = f"annotation {names.UNHEALTHY_DEVICES} names it"
    return [BadDevice(part, reason) for part in parts if 0 < len(part) <= _LONGEST]

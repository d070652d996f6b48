"""Which devices a kubelet gave to which pods, from the file in which its device manager keeps that.

The file belongs to root: an agent that may not read it does without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kai_ray.api import labels as names

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def read(path: Path) -> dict[str, set[str]] | None:
    """UID of the pod -> UUIDs of its devices; None where the file cannot be read."""
    try:
        data = json.loads(path.read_bytes())["Data"]
        found: dict[str, set[str]] = {}
        for entry in data["PodDeviceEntries"] or ():
            name = str(entry["ResourceName"])
            if name in names.GPU_RESOURCES or name.startswith(names.MIG_PREFIX):
                uid = str(entry["PodUID"])
                found.setdefault(uid, set()).update(_devices(entry.get("DeviceIDs")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found


def _devices(raw: Any) -> Iterator[str]:
    """By NUMA node since Kubernetes 1.20, a plain list before."""
    lists = raw.values() if isinstance(raw, dict) else [raw or ()]
    for ids in lists:
        for device in ids or ():
            yield str(device).partition("::")[0]

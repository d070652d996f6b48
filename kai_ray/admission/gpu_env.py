"""Wires the container of a pod that shares GPUs, so that it is told of them (KAI 0.17).

The node, and so the device, is not known yet: the variables refer to a ConfigMap of the pod's own,
which is written before the pod is bound. The container is the first, or the one that the annotation
gpu-fraction-container-name names. Where no webhook runs, a policy in the API server wires the same
variables to annotations (policy_env.py).
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from kai_ray.admission.refusal import cause
from kai_ray.api import labels as names
from kai_ray.cluster.port import Object
from kai_ray.gpu import environment

_LONGEST_BASE = 40


def causes(pod: Object) -> list[Object]:
    """What is wrong with the container that is to get the devices."""
    wanted = (pod["metadata"].get("annotations") or {}).get(names.GPU_FRACTION_CONTAINER)
    if not environment.shares(pod) or wanted is None or environment.container_of(pod) is not None:
        return []
    mend = f"{str(wanted)[:80]!r} is no container of the pod: name one of them or leave it out"
    return [cause(f"metadata.annotations[{names.GPU_FRACTION_CONTAINER}]", mend)]


def add(pod: Object) -> None:
    """Adds the variables but for those that the container sets itself."""
    found = environment.container_of(pod) if environment.shares(pod) else None
    if found is None:
        return
    container, index = found
    env = container.get("env") or []
    if not isinstance(env, list):
        return
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    prefix = annotations.get(names.SHARED_GPU_CONFIG) or _prefix(meta)
    theirs = [entry for entry in env if not _by_policy(entry)]
    mine = [
        entry
        for entry in environment.by_config_map(f"{prefix}-{index}")
        if not any(_named(other, entry["name"]) for other in theirs)
    ]
    if mine:
        meta["annotations"] = {**annotations, names.SHARED_GPU_CONFIG: prefix}
        container["env"] = [*theirs, *mine]


def _by_policy(entry: Any) -> bool:
    """Whether the policy has wired it; a server adds to the reference the version it is read by."""
    source = entry.get("valueFrom") if isinstance(entry, dict) else None
    read = source.get("fieldRef") if isinstance(source, dict) else None
    path = read.get("fieldPath") if isinstance(read, dict) else None
    return any(
        _named(entry, made["name"]) and path == made["valueFrom"]["fieldRef"]["fieldPath"]
        for made in environment.by_annotations()
    )


def _prefix(meta: Object) -> str:
    """How the names of the pod's ConfigMaps begin: its own name, or its owner's and chance."""
    owners = meta.get("ownerReferences") or ()
    base = str(next((o.get("name") for o in owners if isinstance(o, dict)), None) or "")
    name = str(meta.get("name") or "")
    chance = hashlib.sha256(name.encode()).hexdigest() if name else secrets.token_hex(8)
    base = (base or name or str(meta.get("generateName") or "pod"))[:_LONGEST_BASE].strip(".-")
    return f"{base}-{chance[:7]}-shared-gpu"


def _named(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name

"""The workload behind a gang: which one it is, and what its own status says."""

from __future__ import annotations

import json

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object


def owner_of(group: Object) -> tuple[str, str, str]:
    """(apiVersion, kind, name) of the workload that a PodGroup was made for."""
    meta = group["metadata"]
    note = (meta.get("annotations") or {}).get(L.TOP_OWNER_METADATA)
    if note:
        top = _parse(note)
        if top.get("kind") and top.get("name"):
            group_name, version = top.get("group") or "", top.get("version") or "v1"
            api_version = f"{group_name}/{version}" if group_name else version
            return str(top.get("apiVersion") or api_version), str(top["kind"]), str(top["name"])
    for reference in meta.get("ownerReferences") or []:
        return reference["apiVersion"], reference["kind"], reference["name"]
    return R.POD_GROUP.api_version, R.POD_GROUP.kind, meta["name"]


def _parse(note: str) -> dict[str, str]:
    """The annotation is JSON or (KAI's own) YAML of flat fields, quoted where they must be."""
    try:
        top = json.loads(note)
    except ValueError:
        pairs = (line.split(": ", 1) for line in note.splitlines() if ": " in line)
        top = {key: value.strip().strip("\"'") for key, value in pairs}
    return {k: v for k, v in top.items() if isinstance(v, str)} if isinstance(top, dict) else {}


def controlled(obj: Object) -> bool:
    return any(r.get("controller") for r in obj["metadata"].get("ownerReferences") or [])

"""Zones that a BindRequest predicts for its pod, as annotations that the pod gets with its bind."""

from __future__ import annotations

import json

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object


def requested_zones(request: Object) -> dict[str, str]:
    """The annotations that a pod gets with its bind for the zones that a BindRequest predicts."""
    found: dict[str, str] = {}
    cells = (request.get("spec") or {}).get("predictedNUMAZones")
    links = (request["metadata"].get("annotations") or {}).get(names.LINKS_PREDICTED)
    if cells:
        found[names.NUMA_PREDICTED] = json.dumps(cells)
    if links:
        found[names.LINKS_PREDICTED] = links
    return found

"""Puts our definitions onto an API server; those that are there already are brought in line."""

from __future__ import annotations

import time

from kai_ray.api.crd import crds
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Object, Port

FIELD_MANAGER = "kai-ray-install"


def install_definitions(port: Port, *, wait_s: float = 60.0) -> list[str]:
    """Applies our CustomResourceDefinitions server-side and waits until they are served."""
    names: list[str] = []
    for manifest in crds():
        name = manifest["metadata"]["name"]
        port.patch(
            kinds.CRD, name, manifest, patch_type="apply", field_manager=FIELD_MANAGER, force=True
        )
        names.append(name)
    end = time.monotonic() + wait_s
    while missing := [n for n in names if not _established(port.get(kinds.CRD, n))]:
        if time.monotonic() > end:
            raise ApiError(f"not served after {wait_s:.0f} s: {', '.join(missing)}")
        time.sleep(0.2)
    return names


def _established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

"""What a claim is given, and how its status says so (Kubernetes AllocationResult)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kai_ray.cluster.port import Key, Object

from . import cells
from .claims import Held
from .slices import DeviceId


class Result(NamedTuple):
    """One device of an allocation."""

    request: str  # "request", or "request/subrequest"
    device: DeviceId
    admin: bool


class ClaimGrant(NamedTuple):
    """What a pod's claim gets. `results` None: it has its devices, the pod only joins."""

    key: Key
    uid: str
    held: Held
    results: tuple[Result, ...] | None


def allocation(grant: ClaimGrant, claim: Object, classes: dict[str, Object]) -> Object:
    """The `status.allocation` of a claim, with the settings of its classes and its own."""
    assert grant.results is not None, "only for claims that get their devices now"
    devices: Object = {
        "results": [
            {
                "request": r.request,
                "driver": r.device.driver,
                "pool": r.device.pool,
                "device": r.device.device,
                **({"adminAccess": True} if r.admin else {}),
            }
            for r in grant.results
        ]
    }
    config = list(_config(grant, claim, classes))
    if config:
        devices["config"] = config
    made: Object = {"devices": devices}
    if grant.held.nodes is not None:
        made["nodeSelector"] = {"nodeSelectorTerms": cells.terms(grant.held.nodes)}
    return made


def _config(grant: ClaimGrant, claim: Object, classes: dict[str, Object]) -> Iterator[Object]:
    spec = (claim.get("spec") or {}).get("devices") or {}
    used = {r.request for r in grant.results or ()}
    for raw in spec.get("requests") or ():
        for name, one in _stated(raw):
            if name not in used:
                continue
            found = classes.get(one.get("deviceClassName") or "") or {}
            for config in (found.get("spec") or {}).get("config") or ():
                yield {"source": "FromClass", "requests": [name], **config}
    for config in spec.get("config") or ():
        yield {"source": "FromClaim", **config}


def _stated(raw: Object) -> Iterator[tuple[str, Object]]:
    name = raw.get("name") or ""
    for one in raw.get("firstAvailable") or ():
        yield f"{name}/{one.get('name')}", one
    if not raw.get("firstAvailable"):
        yield name, raw.get("exactly") or raw

"""GPUs that are claimed rather than asked for as resources: what nodes offer, what pods hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kai_ray.cluster.port import ApiError, Object, Port
from kai_ray.cluster.served import device_kinds


@dataclass(frozen=True)
class Claimed:
    """GPUs by node name, and by UID of the pods that hold them."""

    offered: dict[str, int] = field(default_factory=dict[str, int])
    held: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, pod: Object) -> float:
        """GPUs that a pod's claims hold; one that pods share counts for the first of them."""
        return self.held.get(pod["metadata"].get("uid") or "", 0.0)


NONE = Claimed()


def read(port: Port) -> Claimed:
    """What slices and claims say; nothing where they are not served, or not to be seen."""
    try:
        served = device_kinds(port)
        if not served:
            return NONE
        slices = port.list(served[1]).items
        claims = port.list(served[3]).items if slices else []
    except ApiError:
        return NONE
    return build(slices, claims)


def build(slices: Iterable[Object], claims: Iterable[Object]) -> Claimed:
    offered: dict[str, int] = {}
    newest: dict[tuple[str, str], int] = {}
    for obj in slices:
        spec = obj.get("spec") or {}
        pool = spec.get("pool") or {}
        key = (str(spec.get("driver")), str(pool.get("name")))
        node = spec.get("nodeName")
        if not node or "gpu" not in key[0].lower():
            continue
        generation = int(pool.get("generation") or 0)
        if generation < newest.get(key, 0):
            continue
        if generation > newest.get(key, 0):
            offered[node] = 0
        newest[key] = generation
        offered[node] = offered.get(node, 0) + len(spec.get("devices") or ())
    held: dict[str, float] = {}
    for claim in claims:
        status = claim.get("status") or {}
        devices = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        count = sum(
            "gpu" in str(d.get("driver")).lower() and not d.get("adminAccess") for d in devices
        )
        users = status.get("reservedFor") or ()
        if count and users:
            uid = str(users[0].get("uid"))
            held[uid] = held.get(uid, 0.0) + count
    return Claimed(offered, held)

"""What a kubelet asks of a pod's resource claims before it starts the pod."""

from __future__ import annotations

from collections.abc import Iterator

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

#: How often a kubelet looks again whether the claims of a pod are ready.
LOOK_AGAIN_S = 1.0
#: (driver, pool, device)
_Device = tuple[str, str, str]


class ClaimedDevices:
    """Reads claims; nothing is written."""

    def __init__(self, runtime: Runtime) -> None:
        self._claims = runtime.informer(R.RESOURCE_CLAIM)
        self._claims.add_index("device", lambda claim: map(repr, _devices(claim)))

    def lack(self, pod: Object) -> str:
        """Why the pod cannot start yet; "" where its claims are allocated and reserved for it."""
        uid = pod["metadata"]["uid"]
        for name in _named(pod):
            claim = self._claims.get(name, pod["metadata"]["namespace"]) if name else None
            status = (claim or {}).get("status") or {}
            if claim is None or not status.get("allocation"):
                return "a resource claim of the pod is not allocated"
            if uid not in {user.get("uid") for user in status.get("reservedFor") or ()}:
                return f"resource claim {name} is not reserved for the pod"
        return ""

    def first(self, pod: Object) -> str:
        """The name of the first device that the pod's claims hold; "" while they hold none."""
        for name in _named(pod):
            claim = self._claims.get(name, pod["metadata"]["namespace"]) if name else None
            for device in _devices(claim or {}):
                return device[2]
        return ""

    def gpus(self, pod: Object) -> list[int]:
        """The numbers of the GPUs that the pod's claims hold, as simulated nodes name them."""
        found: list[int] = []
        for name in _named(pod):
            claim = self._claims.get(name, pod["metadata"]["namespace"]) if name else None
            for driver, _, device in _devices(claim or {}):
                index = device.rpartition("-")[2]
                if "gpu" in driver and index.isdigit():
                    found.append(int(index))
        return found

    def contested(self, pod: Object) -> str:
        """A device of the pod that another claim holds too: no scheduler may let that happen."""
        for name in _named(pod):
            claim = self._claims.get(name, pod["metadata"]["namespace"]) if name else None
            for device in _devices(claim or {}):
                holders = self._claims.by_index("device", repr(device))
                if len(holders) > 1:
                    return f"device {'/'.join(device)} is allocated to {len(holders)} claims"
        return ""


def _named(pod: Object) -> Iterator[str]:
    """Claims of a pod; "" where one is still to be made."""
    made = {
        s.get("name"): s.get("resourceClaimName") or ""
        for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        direct, name = entry.get("resourceClaimName"), entry.get("name")
        if direct or name not in made or made[name]:  # else its template asks for no claim
            yield direct or made.get(name, "")


def _devices(claim: Object) -> Iterator[_Device]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield result["driver"], result["pool"], result["device"]

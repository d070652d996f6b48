"""Stand-in for a volume provisioner: claims are bound at once."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.runtime import Runtime

from .world import World, is_deleting, own_copy, split_key


class ClaimBinder:
    name = "claims"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.PVC)

    def reconcile(self, key: str) -> float | None:
        claim = self._world.get(R.PVC, *split_key(key))
        if claim is None or is_deleting(claim):
            return None
        if (claim.get("status") or {}).get("phase") == "Bound":
            return None
        spec = claim["spec"]
        if not spec.get("volumeName"):
            fresh = own_copy(claim)
            fresh["spec"]["volumeName"] = f"pvc-{claim['metadata']['uid']}"
            claim = self._world.update(R.PVC, fresh)
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or []}
        if size:
            status["capacity"] = {"storage": size}
        self._world.set_status(R.PVC, claim, status)
        return None

"""Stand-in for a volume provisioner: claims are bound at once."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

from .world import World, is_deleting, own_copy, split_key


class ClaimBinder:
    name = "claims"

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        runtime.informer(R.PV)
        self._world.watch(self.name, R.PVC)

    def reconcile(self, key: str) -> float | None:
        claim = self._world.get(R.PVC, *split_key(key))
        if claim is None or is_deleting(claim):
            return None
        if (claim.get("status") or {}).get("phase") == "Bound":
            return None
        spec = claim["spec"]
        if not spec.get("volumeName"):
            volume = f"pvc-{claim['metadata']['uid']}"
            self._world.ensure(R.PV, _volume(volume, claim))
            fresh = own_copy(claim)
            fresh["spec"]["volumeName"] = volume
            claim = self._world.update(R.PVC, fresh)
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        status = {"phase": "Bound", "accessModes": spec.get("accessModes") or []}
        if size:
            status["capacity"] = {"storage": size}
        self._world.set_status(R.PVC, claim, status)
        return None


def _volume(name: str, claim: Object) -> Object:
    """A volume that every node can mount."""
    meta, spec = claim["metadata"], claim["spec"]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": "simulated", "volumeHandle": name},
        },
    }

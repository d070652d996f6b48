"""Volumes that are made where their pod goes: the provisioner is told the node before the bind."""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Object, Write
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.grants import Grant

SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Claims:
    """Knows which claims wait for their first consumer (StorageClass.volumeBindingMode)."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._claims: Informer = runtime.informer(kinds.PVC)
        self._classes: Informer = runtime.informer(kinds.STORAGE_CLASS)

    def writes(self, g: Grant, pod: Object) -> list[Write]:
        """What has to be said about the pod's claims before it is bound."""
        found: list[Write] = []
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self._claims.get(name, g.pod.namespace) if name else None
            if claim is None or not self._waits(claim):
                continue
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(SELECTED_NODE) != g.node:
                patch = {"metadata": {"annotations": {SELECTED_NODE: g.node}}}
                found.append(
                    Write(self._runtime.port.patch, (kinds.PVC, name, patch, g.pod.namespace))
                )
        return found

    def _waits(self, claim: Object) -> bool:
        spec = claim.get("spec") or {}
        if spec.get("volumeName"):
            return False
        cls = self._classes.get(spec.get("storageClassName") or "")
        return cls is not None and cls.get("volumeBindingMode") == "WaitForFirstConsumer"

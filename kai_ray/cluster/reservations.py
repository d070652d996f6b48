"""Which pods are reservation pods: they keep a whole card for those who share it (KAI 0.17)."""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object


def is_reservation(pod: Object, namespace: str = names.RESERVATION) -> bool:
    """By its label, in the namespace that such pods live in."""
    meta = pod["metadata"]
    labels = meta.get("labels")
    return (
        isinstance(labels, dict)
        and labels.get(names.APP) == names.RESERVATION
        and (meta.get("namespace") or "") == namespace
    )

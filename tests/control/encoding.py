"""Objects straight into arrays, for tests."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.encode import EncodeConfig, Encoded, Encoder

from . import objects

NOW = 1_767_225_600.0  # when the objects were made


def encoded(*changes: Any, config: EncodeConfig | None = None, **more: Any) -> Encoded:
    """Queue "team" and PodGroup "g", then the given objects by kind."""
    encoder = Encoder(config, **more)
    for obj in (objects.queue("team"), objects.podgroup("g"), *changes):
        api_version, kind = obj.get("apiVersion", "v1"), obj.get("kind", "")
        encoder.apply(kinds.BY_KIND[api_version, kind], None, obj)
    return encoder.snapshot(NOW)


def api_object(
    kind: str, name: str, api: str = "v1", namespace: str = "default", **body: Any
) -> Any:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **body.pop("meta", {})},
        **body,
    }

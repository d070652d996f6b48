"""Whether an object may be stored: metadata, schema and rules of its kind."""

from __future__ import annotations

from kai_ray.cluster.port import Object

from . import crds, meta
from .kinds import Served
from .meta import Cause


def check(served: Served, new: Object, old: Object | None, subresource: str = "") -> None:
    """Raises Invalid with a cause per field that is wrong."""
    causes: list[Cause] = []
    if not subresource:
        causes.extend(meta.check(served, new, old))
    if served.schema is not None:
        served.schema.validate(new, "", causes, old)
    elif served.group_plural == ("apiextensions.k8s.io", "customresourcedefinitions"):
        causes.extend(crds.check(new))
    if causes:
        raise meta.invalid(served, new["metadata"]["name"], causes)

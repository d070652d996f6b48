"""Whether an object may be stored: metadata, schema and rules of its kind."""

from __future__ import annotations

from kai_ray.cluster.port import Object

from . import kind_rules, meta
from .kinds import Served
from .meta import Cause
from .schema import MOST_CAUSES


def check(served: Served, new: Object, old: Object | None, subresource: str = "") -> None:
    """Raises Invalid with a cause per field that is wrong."""
    causes: list[Cause] = []
    if not subresource and (old is None or new["metadata"] != old["metadata"]):
        causes.extend(meta.check(served, new, old))
    if served.schema is not None:
        served.schema.validate(new, "", causes, old)
    elif not subresource or served.resource.kind == "Node":
        causes.extend(kind_rules.check(served.resource, new, old))
    if causes:
        raise meta.invalid(served, new["metadata"]["name"], causes[:MOST_CAUSES])

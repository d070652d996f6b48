"""Table answers: what `kubectl get` prints is computed here, not by kubectl."""

from __future__ import annotations

from typing import Any, Literal

from kai_ray.cluster.memory.kinds import Served
from kai_ray.cluster.port import Object

from .printers.book import printer_of

META_V1 = "meta.k8s.io/v1"
Include = Literal["None", "Metadata", "Object"]


def table(
    served: Served,
    items: list[Object],
    now: float,
    *,
    include: Include = "Metadata",
    metadata: Object | None = None,
    with_columns: bool = True,
    version: str = "v1",
) -> Object:
    """A meta.k8s.io Table of the objects; `now` in epoch seconds gives the ages."""
    printer = printer_of(served)
    rows: list[Object] = []
    for item in items:
        row: Object = {"cells": printer.cells(item, now)}
        conditions = _row_conditions(item)
        if conditions:
            row["conditions"] = conditions
        if include == "Metadata":
            row["object"] = partial(item)
        elif include == "Object":
            row["object"] = item
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata or {},
        "columnDefinitions": [c.definition() for c in printer.columns] if with_columns else [],
        "rows": rows,
    }


def partial(obj: Object) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": META_V1,
        "metadata": obj["metadata"],
    }


_ENDED = {
    "Succeeded": "Every container ended with exit code 0.",
    "Failed": "A container failed, or the pod was ended from outside.",
}


def _row_conditions(obj: Object) -> list[Any]:
    """Finished pods are marked, so that clients may leave them out or grey them."""
    phase = (obj.get("status") or {}).get("phase")
    if obj.get("kind") != "Pod" or phase not in _ENDED:
        return []
    message = _ENDED[phase]
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]

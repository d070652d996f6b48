"""Devices and claims to them, as `kubectl get` shows them."""

from __future__ import annotations

from kai_ray.cluster.port import Object

from .column import Cell, Printer, age, columns, name


def _claim(obj: Object, now: float) -> list[Cell]:
    status = obj.get("status") or {}
    states = [
        word
        for word, holds in (
            ("deleted", obj["metadata"].get("deletionTimestamp")),
            ("allocated", status.get("allocation")),
            ("reserved", status.get("reservedFor")),
        )
        if holds
    ]
    if not status.get("allocation"):
        states.append("pending")
    return [name(obj), ",".join(states), age(obj, now)]


def _slice(obj: Object, now: float) -> list[Cell]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name") or ""
    node = spec.get("nodeName") or "<unset>"
    return [name(obj), node, spec.get("driver") or "", pool, age(obj, now)]


def _plain(obj: Object, now: float) -> list[Cell]:
    return [name(obj), age(obj, now)]


CLAIM = Printer(columns("Name", "State", "Age"), _claim)
SLICE = Printer(columns("Name", "Node", "Driver", "Pool", "Age"), _slice)
PLAIN = Printer(columns("Name", "Age"), _plain)

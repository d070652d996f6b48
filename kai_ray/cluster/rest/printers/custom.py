"""Custom resources: the columns that their definition names, each cell found by its JSONPath."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import Object
from kai_ray.cluster.rest.jsonpath import JsonPathError, find

from .column import AGE, NAME, Cell, Column, Printer, age, name, since


def printer(additional: tuple[Object, ...]) -> Printer:
    """A printer for `additionalPrinterColumns`; without any, the age is shown."""
    if not additional:
        return Printer((NAME, AGE), lambda obj, now: [name(obj), age(obj, now)])
    shown = tuple(
        Column(
            str(entry.get("name", "")),
            str(entry.get("type") or "string"),
            str(entry.get("format") or ""),
            (entry.get("priority") or 0) > 0,
            str(entry.get("description") or ""),
        )
        for entry in additional
    )
    paths = [str(entry.get("jsonPath") or "") for entry in additional]

    def cells(obj: Object, now: float) -> list[Cell]:
        return [
            name(obj),
            *(_cell(path, column, obj, now) for path, column in zip(paths, shown, strict=True)),
        ]

    return Printer((NAME, *shown), cells)


def _cell(path: str, column: Column, obj: Object, now: float) -> Cell:
    try:
        found = find(path, obj)
    except JsonPathError:
        return "<invalid path>"
    if not found:
        return None
    value: Any = found[0]
    if column.type == "string":
        return _text(value) if len(found) == 1 else " ".join(_text(v) for v in found)
    if column.type == "date":
        return since(value, now) if isinstance(value, str) else "<invalid>"
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if column.type == "integer" else float(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ",".join(f'"{k}":{_quoted(v)}' for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_quoted(v) for v in value) + "]"
    return "" if value is None else str(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _text(value)

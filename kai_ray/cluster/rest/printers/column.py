"""Columns of a server-side table, and the small texts that cells are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object

Cell = str | int | float | bool | None
Cells = Callable[[Object, float], list[Cell]]


class Column(NamedTuple):
    """One column; `wide` ones are shown by `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    wide: bool = False
    description: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": 1 if self.wide else 0,
        }


class Printer(NamedTuple):
    """The columns of a kind, and a function of (object, now in seconds) giving as many cells."""

    columns: tuple[Column, ...]
    cells: Cells


NAME = Column("Name", format="name")
AGE = Column("Age")


def columns(
    *names: str, wide: tuple[str, ...] = (), numbers: tuple[str, ...] = ()
) -> tuple[Column, ...]:
    """Plain columns by name, those in `numbers` being integers, then the wide ones."""
    made = [
        NAME if name == "Name" else Column(name, "integer" if name in numbers else "string")
        for name in names
    ]
    made += [Column(name, "integer" if name in numbers else "string", wide=True) for name in wide]
    return tuple(made)


def name(obj: Object) -> str:
    return obj["metadata"].get("name", "")


def age(obj: Object, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(when: Any, now: float) -> str:
    if not when:
        return "<unknown>"
    try:
        return duration(now - epoch(str(when)))
    except ValueError:
        return "<invalid>"


def duration(seconds: float) -> str:
    """A length of time as kubectl writes it: two units at most, coarser as it grows."""
    s = int(seconds)
    if s < -1:
        return "<invalid>"
    if s <= 0:
        return "0s"
    if s < 120:
        return f"{s}s"
    minutes, hours, days, years = s // 60, s // 3600, s // 86400, s // (365 * 86400)
    if minutes < 10:
        return f"{minutes}m{s % 60}s" if s % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if years < 2:
        return f"{days}d"
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def joined(items: Any, limit: int = 0) -> str:
    """Comma-separated; "<none>" if empty; beyond `limit` items the rest is counted."""
    texts = [str(item) for item in items or ()]
    if not texts:
        return "<none>"
    if limit and len(texts) > limit:
        return ",".join(texts[:limit]) + f" + {len(texts) - limit} more..."
    return ",".join(texts)


def pairs(labels: Any) -> str:
    return joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def selector_text(selector: Any) -> str:
    """A LabelSelector in the form that `-l` takes; "<none>" if it is absent or empty."""
    if not isinstance(selector, dict) or not selector:
        return "<none>"
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return pairs(selector)
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key", ""), ",".join(term.get("values") or ())
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }.get(term.get("operator", ""), key)
        )
    return joined(parts)


def container_columns(template: Any) -> list[Cell]:
    """Names and images of a pod template's containers."""
    containers = ((template or {}).get("spec") or {}).get("containers") or []
    return [
        ",".join(str(c.get("name", "")) for c in containers),
        ",".join(str(c.get("image", "")) for c in containers),
    ]


def condition(obj: Object, kind: str) -> Object | None:
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind:
            return entry
    return None


def is_true(obj: Object, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"

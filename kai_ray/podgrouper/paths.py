"""The part of jq that names places: `.a.b["c"][].d[0] // 1`. What is more than that is refused."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from .values import GroupError

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)       # .name
      | \.?\[\s*(?P<text>"(?:[^"\\]|\\.)*")\s*\]   # ["key"]
      | \.(?P<quoted>"(?:[^"\\]|\\.)*")            # ."key"
      | \.?\[\s*(?P<index>-?\d+)\s*\]              # [0]
      | \.?(?P<each>\[\s*\])                       # []
      | (?P<maybe>\?)                              # ?
    """,
    re.VERBOSE,
)
_EACH = object()

Steps = tuple[Any, ...]


def values_at(obj: Any, expression: str, field: str) -> list[Any]:
    """All values that the expression gives, without nulls. Raises GroupError if it is no path."""
    for alternative in _alternatives(expression, field):
        found = [v for v in _follow(obj, alternative) if v is not None and v is not False]
        if found:
            return found
    return []


@lru_cache(maxsize=512)
def _alternatives(expression: str, field: str) -> tuple[Steps | Literal, ...]:
    whole = expression.strip()
    if whole.startswith("(") and whole.endswith(")") and whole.count("(") == 1:
        whole = whole[1:-1]
    return tuple(_parse(part, field) for part in _split(whole))


class Literal(tuple[Any]):
    """A number or text written in the expression itself."""

    __slots__ = ()


def _split(expression: str) -> list[str]:
    """At `//`, outside of quotes."""
    parts, quoted, last, i = [], False, 0, 0
    while i < len(expression):
        if expression[i] == "\\" and quoted:
            i += 1
        elif expression[i] == '"':
            quoted = not quoted
        elif not quoted and expression.startswith("//", i):
            parts.append(expression[last:i])
            last, i = i + 2, i + 1
        i += 1
    return [*parts, expression[last:]]


def _parse(part: str, field: str) -> Steps | Literal:
    text = part.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if not text.startswith("."):
        try:
            return Literal((json.loads(text),))
        except ValueError:
            raise _unknown(part, field) from None
    steps: list[Any] = []
    at = 1 if text == "." else 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise _unknown(part, field)
        at = found.end()
        if found["each"]:
            steps.append(_EACH)
        elif found["index"]:
            steps.append(int(found["index"]))
        elif found["name"]:
            steps.append(found["name"])
        elif found["text"] or found["quoted"]:
            steps.append(json.loads(found["text"] or found["quoted"]))
    return tuple(steps)


def _unknown(part: str, field: str) -> GroupError:
    return GroupError(
        field, f"{part.strip()!r} is not understood", "write a path such as .spec.groups[].replicas"
    )


def _follow(obj: Any, steps: Steps | Literal) -> list[Any]:
    if isinstance(steps, Literal):
        return [steps[0]]
    here = [obj]
    for step in steps:
        following: list[Any] = []
        for value in here:
            if step is _EACH:
                inner = value.values() if isinstance(value, dict) else value
                following += list(inner) if isinstance(value, dict | list) else []
            elif isinstance(step, int) and isinstance(value, list):
                following += value[step : step + 1] if step >= 0 else value[step:][:1]
            elif isinstance(value, dict):
                following.append(value.get(step))
        here = following
    return here

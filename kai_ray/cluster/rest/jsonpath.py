"""The part of kubectl's JSONPath that printer columns use.

Understood: `.a.b`, `.a['b.c/d']`, `.a\\.b`, `[0]`, `[-1]`, `[0:2]`, `[*]`, `.*`, `..name`, and
filters `[?(@.a == "x")]` with ==, !=, <, <=, >, >= or a bare `@.a` for existence.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterator[Any]]
_MISSING = object()
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAME = re.compile(r"(?:\\.|[^.\[\]\\'\"\s()=!<>])+")
_FILTER = re.compile(r"^\s*@(?P<path>.*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*$")
_SLICE = re.compile(r"^(-?\d*):(-?\d*)$")


class JsonPathError(ValueError):
    """The path cannot be read."""


def find(path: str, obj: Any) -> list[Any]:
    """All values at the path, in order; empty if there are none. Raises JsonPathError."""
    values = [obj]
    for step in parse(path):
        values = [found for value in values for found in step(value)]
        if not values:
            break
    return values


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    if text.startswith("$"):
        text = text[1:]
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text.startswith("..", at):
            name, at = _name(text, at + 2)
            steps.append(_descend(name))
        elif text[at] == "[":
            inside, at = _bracket(text, at)
            steps.append(_subscript(inside))
        elif text[at] == ".":
            at += 1
            if at < len(text) and text[at] == "[":
                continue
            if at == len(text):
                break
            name, at = _name(text, at)
            steps.append(_every if name == "*" else _field(name))
        elif at == 0:
            name, at = _name(text, at)
            steps.append(_field(name))
        else:
            raise JsonPathError(f"{path!r}: cannot read from {text[at:]!r} on")
    return tuple(steps)


def _name(text: str, at: int) -> tuple[str, int]:
    match = _NAME.match(text, at)
    if match is None:
        raise JsonPathError(f"{text!r}: a field name is missing at {at}")
    return re.sub(r"\\(.)", r"\1", match[0]), match.end()


def _bracket(text: str, start: int) -> tuple[str, int]:
    depth, quote, at = 0, "", start
    while at < len(text):
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return text[start + 1 : at].strip(), at + 1
        at += 1
    raise JsonPathError(f"{text!r}: the [ at {start} is not closed")


def _subscript(inside: str) -> Step:
    if inside == "*":
        return _every
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1])
    if inside[:1] in "'\"" and inside[:1] == inside[-1:] and len(inside) > 1:
        return _field(inside[1:-1])
    if re.fullmatch(r"-?\d+", inside):
        return _index(int(inside))
    if match := _SLICE.match(inside):
        return _slice(*(int(bound) if bound else None for bound in match.groups()))
    raise JsonPathError(f"[{inside}] is neither an index, a slice, a name nor a filter")


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _index(number: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(first: int | None, last: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last]

    return step


def _descend(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _every(value):
            yield from step(child)

    return step


def _filter(text: str) -> Step:
    match = _FILTER.match(text)
    if match is None:
        raise JsonPathError(f"?({text}): a filter compares @.field with a value")
    path, op = match["path"], match["op"]
    wanted = _literal(match["value"]) if op else None

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found = next(iter(find(path, item)), _MISSING)
            if op is None:
                if found is not _MISSING:
                    yield item
            elif found is not _MISSING and _holds(op, found, wanted):
                yield item

    return step


def _holds(op: str, left: Any, right: Any) -> bool:
    try:
        return _COMPARE[op](left, right)
    except TypeError:
        return False


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text[:1] == text[-1:]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise JsonPathError(f"{text!r} is no value: quote it") from None

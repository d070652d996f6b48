"""Input that cannot be used: what is wrong with which object, and how to mend it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """One object that is inert until somebody mends it."""

    kind: str
    namespace: str
    name: str
    field: str  # path inside the object, e.g. "spec.resources.gpu.quota"
    mend: str  # what is wrong and what to write instead

    @property
    def message(self) -> str:
        return f"{self.field}: {self.mend}"


#: What reading an object of the wrong form raises where nothing more precise is said.
MISREAD = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


class Malformed(ValueError):
    """A field that cannot be used; becomes a `Problem` of the object being read."""

    def __init__(self, field: str, mend: str) -> None:
        super().__init__(f"{field}: {mend}")
        self.field = field
        self.mend = mend


def text(value: Any, field: str) -> str:
    """A text, "" for what is missing; raises Malformed for anything else."""
    if value is None:
        return ""
    if type(value) is not str:
        raise Malformed(field, f"{value!r} is not text")
    return value


def texts(value: Any, field: str) -> dict[str, str]:
    """A map of texts, such as labels; raises Malformed."""
    if not value:
        return {}
    if type(value) is not dict or not all(type(v) is str for v in value.values()):
        raise Malformed(field, "is not a map of texts")
    return value

"""Input that cannot be used: what is wrong with which object, and how to mend it."""

from __future__ import annotations

from typing import NamedTuple


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


class Malformed(ValueError):
    """A field that cannot be used; becomes a `Problem` of the object being read."""

    def __init__(self, field: str, mend: str) -> None:
        super().__init__(f"{field}: {mend}")
        self.field = field
        self.mend = mend

"""What all shapes are made of, and what several pages show."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Short = Annotated[str, Meta(max_length=253)]


class Shape(Struct, rename="camel", gc=False):
    """Something that the console says."""


class Given(Struct, rename="camel", forbid_unknown_fields=True):
    """Something that the console is told."""


class Error(Shape):
    """Why a request was refused: `field` names what was wrong in it, `next` what would help."""

    code: int
    reason: str
    message: str
    field: str = ""
    next: str = ""


class Refusal(Shape):
    error: Error


class State(Shape):
    ok: bool
    message: str = ""


class Condition(Shape):
    type: str
    status: str
    reason: str
    message: str
    since: str


class Event(Shape):
    at: str
    type: str
    reason: str
    message: str
    count: int
    object: str

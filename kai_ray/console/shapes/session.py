"""Who is looking, and what they may do."""

from __future__ import annotations

from msgspec import field

from kai_ray.console.shapes.base import Shape


class Context(Shape):
    """A cluster that the console looks at. `state`: ok, starting or down."""

    name: str
    home: bool
    state: str
    message: str = ""
    since: str = ""


class Session(Shape):
    """Who is looking, and what they may do. `namespaces` null: all of them."""

    mode: str
    version: str
    signed_in: bool
    sign_in: str
    user: str = ""
    home: str = ""
    contexts: list[Context] = field(default_factory=list)
    may_edit_queues: bool = False
    may_read_queues: bool = False
    may_read_nodes: bool = False
    namespaces: list[str] | None = None
    history: bool = False

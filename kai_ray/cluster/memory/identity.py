"""Who is writing: carried beside the call, because the port's methods have no user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_user: ContextVar[str] = ContextVar("kai_ray_user", default="system:kai-ray")


def current_user() -> str:
    return _user.get()


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """Writes inside the block are admitted as this user's."""
    token = _user.set(user)
    try:
        yield
    finally:
        _user.reset(token)

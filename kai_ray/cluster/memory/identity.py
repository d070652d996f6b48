"""Who is writing, and where warnings go: beside the call, as the port's methods have no user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kai_ray.cluster.port import unheard

_user: ContextVar[str] = ContextVar("kai_ray_user", default="system:kai-ray")
_warn: ContextVar[Callable[[str], None]] = ContextVar("kai_ray_warn", default=unheard)


def current_user() -> str:
    return _user.get()


def current_warn() -> Callable[[str], None]:
    return _warn.get()


@contextmanager
def hearing() -> Iterator[list[str]]:
    """The warnings of admission about writes inside the block."""
    heard: list[str] = []
    token = _warn.set(heard.append)
    try:
        yield heard
    finally:
        _warn.reset(token)


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """Writes inside the block are admitted as this user's."""
    token = _user.set(user)
    try:
        yield
    finally:
        _user.reset(token)

"""Refusals of the API server as this package's own errors, at the door of every public call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from kai_ray.cluster.port import ApiError
from kai_ray.sdk.errors import from_api

P = ParamSpec("P")
T = TypeVar("T")


def told(call: Callable[P, T]) -> Callable[P, T]:
    """Adds that to a function."""

    @wraps(call)
    def speaking(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except ApiError as error:
            raise from_api(error) from error

    return speaking

"""The memory store served as Kubernetes REST, so that kubectl and stock clients work on it."""

from .server import RestServer
from .users import User

__all__ = ["RestServer", "User"]

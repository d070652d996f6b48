"""The embedded API server's store."""

from .identity import acting_as, current_user
from .install import install_defaults
from .kinds import Registry, ScalePaths, Served
from .persist import StateFileError
from .store import MemoryStore

__all__ = [
    "MemoryStore",
    "Registry",
    "ScalePaths",
    "Served",
    "StateFileError",
    "acting_as",
    "current_user",
    "install_defaults",
]

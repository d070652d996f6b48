"""The process that runs on a cluster: the same controllers as everywhere, on a real API server."""

from kai_ray.manager.composition import Composition
from kai_ray.manager.config import COMPONENTS, ManagerConfig
from kai_ray.manager.manager import Manager

__all__ = ["COMPONENTS", "Composition", "Manager", "ManagerConfig"]

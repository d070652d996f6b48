"""Talking to Ray itself: its head knows nodes, and can be asked to empty them."""

from kai_ray.ray.drains import GcsDrainer

__all__ = ["GcsDrainer"]

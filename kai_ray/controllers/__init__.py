"""What makes decisions happen: the scheduling loop, the binder, statuses and events."""

from .compose import Control, build
from .config import ControlConfig

__all__ = ["Control", "ControlConfig", "build"]

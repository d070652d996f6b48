"""The pure core: arrays in, decisions out."""

from .cycle import decide
from .plan import Plan
from .policy import DEFAULT, Placement, Policy
from .reason import Reason
from .snapshot import Snapshot

__all__ = ["DEFAULT", "Placement", "Plan", "Policy", "Reason", "Snapshot", "decide"]

"""Objects <-> arrays: the one place where names become integers and integers become names."""

from .encoded import Encoded, Names, Orphan
from .encoder import ADDED_RESOURCES, DEVICE_RESOURCES, RESOURCES, Encoder
from .problems import Problem
from .settings import EncodeConfig, MemberOf, Membership

__all__ = [
    "ADDED_RESOURCES",
    "DEVICE_RESOURCES",
    "RESOURCES",
    "EncodeConfig",
    "Encoded",
    "Encoder",
    "MemberOf",
    "Membership",
    "Names",
    "Orphan",
    "Problem",
]

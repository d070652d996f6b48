"""The embedded API server's store.

A write goes: `copying` (own copy) · `wire` (types) · `meta` (identity) · `defaults` · admission ·
`validation` (`meta`, `kind_rules`, `schema`, `celrules`) · `state` (version, journal, watches) ·
`collect`, `deletion`, `crds`, `expiry` (what follows). Patches: `patching`, `patch_json`,
`patch_strategic`, `apply` over `fieldsets`; how lists merge: `shapes`.

Where it differs from Kubernetes, on purpose: what follows from a write has happened when the write
returns; nulls are dropped; fields that a built-in kind does not have are kept; a quantity beyond 64
bits is refused; managedFields are kept only for objects that somebody
has applied; a deleted CustomResourceDefinition does not wait for its objects' finalizers;
LimitRange and ResourceQuota are stored, not enforced.
"""

from .identity import acting_as, current_user, hearing
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
    "hearing",
    "install_defaults",
]

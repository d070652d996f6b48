"""Which kinds, and which versions of them, a server has."""

from __future__ import annotations

from . import resources as kinds
from .port import ApiError, NotFound, Port, Resource

#: Versions of resource.k8s.io that are read and written, the newest first.
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
_DEVICE_KINDS = (
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_SLICE,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_CLAIM,
)


def serves(port: Port, resource: Resource) -> bool:
    """Whether the server knows a kind; one that cannot be asked now is taken to."""
    try:
        port.list(resource, limit=1)
    except NotFound:
        return False
    except (ApiError, OSError):
        return True
    return True


def device_kinds(port: Port) -> tuple[Resource, ...]:
    """DeviceClass, ResourceSlice, ResourceClaimTemplate and ResourceClaim; none if not served."""
    for version in DEVICE_VERSIONS:
        found = tuple(kind._replace(version=version) for kind in _DEVICE_KINDS)
        if serves(port, found[-1]):
            return found
    return ()

"""Devices that belong together: attributes that must agree, NUMA cells, linked GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kai_ray.encode.selectors import NODE_NAME, Need, NodeSelector

from .attributes import Name
from .slices import Device

if TYPE_CHECKING:
    from kai_ray.encode.shape import Shape

#: Stand for whichever attribute tells a device's NUMA cell, or its group of linked GPUs.
NUMA: Name = ("", "numa")
LINKS: Name = ("", "links")
#: Drivers name these in their own domains; the name behind the domain is what is looked at.
_KNOWN = {
    NUMA: ("numaNode", "numa", "numaNodeID", "numa-node"),
    LINKS: ("linkDomain", "linkGroup", "nvlinkDomain", "nvlinkGroup"),
}


def value(device: Device, name: Name) -> Any:
    """The value of an attribute, or of the first that is known for NUMA and LINKS; None = none."""
    known = _KNOWN.get(name)
    if known is None:
        return device.value(name)
    for own in known:
        for attribute in sorted(device.attributes):
            if attribute[1] == own:
                return device.attributes[attribute]
    return None


def implied(shape: Shape) -> tuple[bool, bool]:
    """Whether all devices must be of one NUMA cell, and all GPUs linked, by the pod's policy."""
    return "single-numa" in shape.zones.policies, "nvlink" in shape.zones.policies


def only(node: str) -> NodeSelector:
    """The selector of one node."""
    return ((Need(NODE_NAME, "In", (node,)),),)


def terms(selector: NodeSelector) -> list[dict[str, Any]]:
    """A selector as the API writes it."""
    found: list[dict[str, Any]] = []
    for needs in selector:
        term: dict[str, Any] = {}
        for need in needs:
            field = need.key == NODE_NAME
            one = {
                "key": "metadata.name" if field else need.key,
                "operator": need.op,
                **({"values": list(need.values)} if need.values else {}),
            }
            term.setdefault("matchFields" if field else "matchExpressions", []).append(one)
        found.append(term)
    return found

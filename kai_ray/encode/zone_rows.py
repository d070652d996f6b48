"""What nodes tell of their zones: NodeResourceTopology objects, or an annotation of the node."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster.port import Object
from kai_ray.scheduler.zones.facts import ZonePolicy

from . import requests
from .problems import Malformed, text

#: Zones of one node at most: more are no NUMA cells.
MOST_ZONES = 64
_POLICIES = {
    "none": ZonePolicy.NONE,
    "best-effort": ZonePolicy.BEST_EFFORT,
    "restricted": ZonePolicy.RESTRICTED,
    "single-numa-node": ZonePolicy.SINGLE,
    "single-numa": ZonePolicy.SINGLE,
}
#: The deprecated topologyPolicies: BestEffort, RestrictedPodLevel, SingleNUMANodeContainerLevel.
_OLD_POLICY = re.compile(r"(None|BestEffort|Restricted|SingleNUMANode)(Pod|Container)?(?:Level)?")
_OLD_NAMES = {
    "None": ZonePolicy.NONE,
    "BestEffort": ZonePolicy.BEST_EFFORT,
    "Restricted": ZonePolicy.RESTRICTED,
    "SingleNUMANode": ZonePolicy.SINGLE,
}
_ANNOTATION = f"metadata.annotations[{names.NODE_ZONES}]"


class Zone(NamedTuple):
    """Amounts by resource row; GPUs of all vendors are "gpu"."""

    name: str
    allocatable: tuple[tuple[str, int], ...]
    available: tuple[tuple[str, int], ...] = ()  # as the node's kubelet says


class ZoneRules(NamedTuple):
    """How zones of nodes are read; KAI's plugin numa has the same settings."""

    known: bool = True  # False: NodeResourceTopology objects are not looked at
    ignored: frozenset[str] = frozenset()  # resources that kubelets report but do not align
    rebuilt: bool = True
    """Free is what pods are known not to hold; else what the object says is available."""


OWN_RULES = ZoneRules()


class ZoneRow(NamedTuple):
    policy: ZonePolicy = ZonePolicy.NONE
    per_container: bool = True
    zones: tuple[Zone, ...] = ()
    links: tuple[Zone, ...] = ()  # groups of linked GPUs


def read(topology: Object) -> ZoneRow:
    """A NodeResourceTopology. Raises Malformed."""
    attributes = {str(a.get("name")): str(a.get("value")) for a in topology.get("attributes") or ()}
    policy, scope = attributes.get("topologyManagerPolicy"), attributes.get("topologyManagerScope")
    old = topology.get("topologyPolicies") or ()
    if policy:
        stated, per_container = _POLICIES.get(policy, ZonePolicy.NONE), scope != "pod"
    else:
        found = _OLD_POLICY.fullmatch(str(old[0])) if old else None
        stated = _OLD_NAMES[found[1]] if found else ZonePolicy.NONE
        per_container = scope != "pod" if scope else not (found and found[2] == "Pod")
    zones = [
        _reported(zone)
        for zone in topology.get("zones") or ()
        if zone.get("type") == "Node" and zone.get("resources")
    ]
    return ZoneRow(stated, per_container, _in_order(zones, "zones"))


def _reported(zone: dict[str, Any]) -> Zone:
    resources = zone["resources"]
    found = _zone(zone.get("name"), {r["name"]: r.get("allocatable") for r in resources}, "zones")
    free = {r["name"]: r["available"] for r in resources if r.get("available") is not None}
    return found._replace(available=_zone(zone.get("name"), free, "zones").allocatable)


def read_annotation(raw: Any) -> ZoneRow | None:
    """The node's own annotation; None where it has none. Raises Malformed.

    {"policy": "single-numa", "scope": "pod", "zones": [{"name": "0", "cpu": "32",
     "nvidia.com/gpu": 4}], "links": [{"name": "0", "nvidia.com/gpu": 4}]}
    """
    stated = text(raw, _ANNOTATION)
    if not stated:
        return None
    try:
        found = json.loads(stated)
    except ValueError as error:
        raise Malformed(_ANNOTATION, f"is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise Malformed(_ANNOTATION, "is no JSON object")
    policy = found.get("policy", "none")
    if policy not in _POLICIES:
        raise Malformed(_ANNOTATION, f"policy {policy!r} is none of {', '.join(_POLICIES)}")
    if found.get("scope", "container") not in ("container", "pod"):
        raise Malformed(_ANNOTATION, f"scope {found['scope']!r} is neither container nor pod")
    zones, links = (
        _in_order([_stated(zone, key) for zone in found.get(key) or ()], _ANNOTATION)
        for key in ("zones", "links")
    )
    return ZoneRow(_POLICIES[policy], found.get("scope") != "pod", zones, links)


def _stated(zone: Any, key: str) -> Zone:
    if not isinstance(zone, dict):
        raise Malformed(_ANNOTATION, f"{key} holds {zone!r}: give objects")
    amounts = {str(k): str(v) for k, v in zone.items() if k != "name"}
    return _zone(str(zone.get("name", "")), amounts, _ANNOTATION)


def _zone(name: Any, amounts: dict[str, Any], field: str) -> Zone:
    total: dict[str, int] = {}
    for resource, raw in amounts.items():
        row = "gpu" if resource in GPU_RESOURCES else resource
        value = requests.amount(resource, raw, f"{field}[{name}].{resource}")
        total[row] = total.get(row, 0) + value
    return Zone(text(name, field), tuple(sorted(total.items())))


def _in_order(zones: list[Zone], field: str) -> tuple[Zone, ...]:
    """By the number at the end of the name, those without one last; then by name."""
    if len(zones) > MOST_ZONES:
        raise Malformed(field, f"has {len(zones)} zones: at most {MOST_ZONES} are read")
    if len({zone.name for zone in zones}) < len(zones):
        raise Malformed(field, "names a zone twice: give each its own name")
    return tuple(sorted(zones, key=_place))


def _place(zone: Zone) -> tuple[bool, int, str]:
    number = re.search(r"(\d{1,9})$", zone.name)
    return number is None, int(number[1]) if number else 0, zone.name

"""What a pod asks of a node, by name: equal shapes are one task class.

Pods of a workload differ in names and environment, not in what the scheduler looks at. The parts
that matter are serialised into a key, and each key is read once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kai_ray.api import labels as names

from . import gpu_asks, requests, zone_asks
from .dra.asks import DeviceAsk
from .gpu_asks import GpuAsk
from .peers import PeerTermByName, SpreadByName, affinity_term, spread
from .problems import Malformed, text
from .requests import Amounts
from .selectors import (
    Labels,
    Needs,
    NodeSelector,
    node_labels,
    node_selector_term,
    node_selector_terms,
)
from .zone_asks import ZoneAsk

_encode = msgspec.json.Encoder().encode
_CACHE_LIMIT = 65_536


class Toleration(NamedTuple):
    key: str  # "" with Exists tolerates every key
    op: str  # Equal, Exists, Lt, Gt
    value: str
    effect: str  # "" = every effect


class Port(NamedTuple):
    port: int
    protocol: str
    ip: str


class Shape(NamedTuple):
    """Hashable and sortable by `repr`. Fields as in ClassRules, with names for codes."""

    request: Amounts = ()
    required: tuple[NodeSelector, ...] = ()
    preferred: tuple[tuple[int, Needs], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[Port, ...] = ()
    affinity: tuple[PeerTermByName, ...] = ()
    anti_affinity: tuple[PeerTermByName, ...] = ()
    preferred_affinity: tuple[tuple[int, PeerTermByName], ...] = ()
    spread: tuple[SpreadByName, ...] = ()
    blocked: int = 0
    blocked_detail: str = ""
    gpu: GpuAsk = gpu_asks.NO_SHARE
    zones: ZoneAsk = zone_asks.NO_ZONES
    devices: DeviceAsk = ()  # what its resource claims ask for (dra/)

    def peer_terms(self) -> list[PeerTermByName]:
        return [
            *self.affinity,
            *self.anti_affinity,
            *(term for _, term in self.preferred_affinity),
            *(s.term for s in self.spread),
        ]

    def as_foreign(self) -> Shape:
        """Of a pod that is not ours to place, only what others must respect remains."""
        return Shape(
            request=self.request,
            ports=self.ports,
            anti_affinity=self.anti_affinity,
            preferred_affinity=self.preferred_affinity,
            gpu=self.gpu,
            devices=self.devices,
        )


class Shapes:
    """Reads pods into shapes, each distinct one once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, pod: dict[str, Any]) -> Shape:
        """Raises Malformed. Volumes, ConfigMaps and claims are not looked at (volumes.py, dra/)."""
        spec = pod["spec"]
        key = _key(pod, spec)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            found = self._known[key] = _read(pod, spec)
        return found


def _key(pod: dict[str, Any], spec: dict[str, Any]) -> bytes:
    get = spec.get
    parts: list[Any] = []
    for c in get("containers") or ():
        parts.append(c.get("resources"))
        ports = c.get("ports")
        if ports:
            parts.append(ports)
    init = get("initContainers")
    if init:
        parts.append([(c.get("resources"), c.get("restartPolicy"), c.get("ports")) for c in init])
    affinity = get("affinity")
    constraints = get("topologySpreadConstraints")
    parts += (
        get("nodeSelector"),
        get("tolerations"),
        affinity,
        constraints,
        get("overhead"),
        get("hostNetwork"),
        get("resources"),
    )
    meta = pod["metadata"]
    if affinity or constraints:
        parts.append(meta.get("namespace"))
        text = _encode((affinity, constraints))
        if b"atchLabelKeys" in text:
            parts.append(meta.get("labels"))
    annotations = meta.get("annotations")
    if annotations and (len(annotations) > 1 or names.POD_GROUP not in annotations):
        parts.append([annotations.get(k) for k in _SHARING])
        parts += [k for k in annotations if k.startswith(names.MIG_PREFIX)]
    return _encode(parts)


_SHARING = (
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_DEVICES,
    names.MPS,
    names.NODE_TOPOLOGY_POLICY,
)


def _read(pod: dict[str, Any], spec: dict[str, Any]) -> Shape:
    meta = pod["metadata"]
    namespace = meta.get("namespace") or ""
    labels: Labels = meta.get("labels") or {}
    required: list[NodeSelector] = []
    if spec.get("nodeSelector"):
        required.append(node_labels(spec["nodeSelector"]))
    affinity = spec.get("affinity") or {}
    preferred = _node_affinity(affinity.get("nodeAffinity") or {}, required)
    together = _terms(affinity.get("podAffinity"), namespace, labels, "spec.affinity.podAffinity")
    apart = _terms(
        affinity.get("podAntiAffinity"), namespace, labels, "spec.affinity.podAntiAffinity"
    )
    request = requests.effective(spec)
    return Shape(
        request=request,
        required=tuple(required),
        preferred=preferred,
        tolerations=tuple(sorted({_toleration(t) for t in spec.get("tolerations") or ()})),
        ports=_ports(spec),
        affinity=together[0],
        anti_affinity=apart[0],
        preferred_affinity=(*together[1], *((-w, term) for w, term in apart[1])),
        spread=tuple(
            spread(raw, namespace, labels, f"spec.topologySpreadConstraints[{i}]")
            for i, raw in enumerate(spec.get("topologySpreadConstraints") or ())
        ),
        gpu=gpu_asks.read(meta.get("annotations") or {}, request),
        zones=zone_asks.read(spec, meta.get("annotations") or {}),
    )


def _node_affinity(
    raw: dict[str, Any], required: list[NodeSelector]
) -> tuple[tuple[int, Needs], ...]:
    path = "spec.affinity.nodeAffinity"
    hard = raw.get("requiredDuringSchedulingIgnoredDuringExecution")
    if hard is not None:
        field = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        required.append(node_selector_terms(hard.get("nodeSelectorTerms"), field))
    preferred: list[tuple[int, Needs]] = []
    for i, p in enumerate(raw.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        field = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        needs = node_selector_term(p.get("preference") or {}, f"{field}.preference")
        if needs:
            preferred.append((_weight(p, field), needs))
    return tuple(preferred)


def _terms(
    raw: Any, namespace: str, labels: Labels, path: str
) -> tuple[tuple[PeerTermByName, ...], tuple[tuple[int, PeerTermByName], ...]]:
    raw = raw or {}
    hard = tuple(
        affinity_term(
            t, namespace, labels, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{i}]"
        )
        for i, t in enumerate(raw.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
    )
    soft: list[tuple[int, PeerTermByName]] = []
    for i, t in enumerate(raw.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        field = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        term = affinity_term(t.get("podAffinityTerm") or {}, namespace, labels, field)
        soft.append((_weight(t, field), term))
    return hard, tuple(soft)


def _weight(raw: dict[str, Any], field: str) -> int:
    weight = raw.get("weight")
    if type(weight) is not int or not 1 <= weight <= 100:
        raise Malformed(f"{field}.weight", f"{weight!r} is not an integer from 1 to 100")
    return weight


def _toleration(raw: dict[str, Any]) -> Toleration:
    op = raw.get("operator") or "Equal"
    if op not in ("Equal", "Exists", "Lt", "Gt"):
        raise Malformed("spec.tolerations.operator", f"{op!r} is none of Equal, Exists, Lt, Gt")
    key, value, effect = (
        text(raw.get(k), f"spec.tolerations.{k}") for k in ("key", "value", "effect")
    )
    return Toleration(key, op, value, effect)


def _ports(spec: dict[str, Any]) -> tuple[Port, ...]:
    found: set[Port] = set()
    on_host = bool(spec.get("hostNetwork"))
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for c in (*(spec.get("containers") or ()), *sidecars):
        for p in c.get("ports") or ():
            number = p.get("hostPort") or (p.get("containerPort") if on_host else 0)
            if number:
                ip = p.get("hostIP") or "0.0.0.0"
                found.add(Port(int(number), str(p.get("protocol") or "TCP"), str(ip)))
    return tuple(sorted(found))

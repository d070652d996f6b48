"""What a queue says about the gangs in it, beyond quotas: annotations that its children inherit.

KAI's Queue has no fields for these, and its CRD stays as it is. A child states one of them to
replace what it would inherit; others it inherits one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.api.durations import parse_duration
from kai_ray.scheduler.snapshot import Layout

from . import idle_rules, zone_asks
from .pod_rows import seconds
from .problems import Malformed

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PLACES = re.compile(r"([0-9]{1,7})(?:x([0-9]{1,7}))?")
_MOST = 64
_LARGEST = 1_000_000
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[-+]\d{2}:\d{2})", re.ASCII
)
_LAYOUTS = {"binpack": Layout.BINPACK, "spread": Layout.SPREAD}


class ReservedGpus(NamedTuple):
    gpus: int  # in all
    size: int  # of one place, on one node


class QueuePolicy(NamedTuple):
    """None = not stated here: as the parent says, and nothing at the top."""

    layout: Layout | None = None
    default_priority: str | None = None
    priorities: tuple[str, ...] | None = None  # classes that gangs may have
    pools: tuple[str, ...] | None = None
    gpu_types: tuple[str, ...] | None = None
    align: tuple[str, ...] | None = None  # to zones inside nodes, where pods do not say
    max_run_time_s: float | None = None  # 0 = no maximum, whatever the parent says
    reserved: ReservedGpus | None = None  # not inherited: kept for this queue and those below
    drain_deadline_s: float | None = None
    drained: bool | None = None  # that deadline has passed
    eviction_grace_s: float | None = None  # to save work in, for workloads that state none
    max_eviction_grace_s: float | None = None  # the most that a workload may state
    idle: tuple[idle_rules.IdleRule, ...] | None = None  # what follows where GPUs are not used
    protected: tuple[idle_rules.Span, ...] | None = None  # hours in which build jobs may be idle

    def below(self, parent: QueuePolicy) -> QueuePolicy:
        """What holds for a child that states `self`."""
        merged: Any = (b if a is None else a for a, b in zip(self, parent, strict=True))
        return QueuePolicy(*merged)._replace(reserved=self.reserved)

    @property
    def narrows_nodes(self) -> bool:
        return self.pools is not None or self.gpu_types is not None


SILENT = QueuePolicy()


def read(annotations: Mapping[str, Any]) -> QueuePolicy:
    """Raises Malformed for the first annotation that cannot be used."""
    if not any(key in annotations for key in _READERS):
        return SILENT
    found: dict[str, Any] = {}
    for key, (field, reader) in _READERS.items():
        raw = annotations.get(key)
        if raw is not None:
            found[field] = reader(raw, f"metadata.annotations[{key}]")
    policy = QueuePolicy(**found)
    _agrees(policy)
    return policy


def problems(annotations: Mapping[str, Any]) -> list[Malformed]:
    """All that is wrong, for who refuses the Queue."""
    found: list[Malformed] = []
    for key in _READERS:
        if key in annotations:
            try:
                read({key: annotations[key]})
            except Malformed as error:
                found.append(error)
    if not found:
        try:
            read(annotations)
        except Malformed as error:
            found.append(error)
    return found


def inherited(stated: Mapping[str, tuple[str, QueuePolicy]], order: list[str]) -> list[QueuePolicy]:
    """Per queue of `order` (parents first) what holds for it; `stated` has (parent, policy)."""
    found: dict[str, QueuePolicy] = {}
    for name in order:
        parent, own = stated[name]
        found[name] = own.below(found.get(parent, SILENT))
    return [found[name] for name in order]


def same_gpu_type(wanted: str, product: str) -> bool:
    """`H100` is any product with that word in it: NVIDIA-H100-80GB-HBM3; else the whole name."""
    low, have = wanted.lower(), product.lower()
    return low == have or low in re.split(r"[-_ .]", have)


def _agrees(policy: QueuePolicy) -> None:
    default, allowed = policy.default_priority, policy.priorities
    if default is not None and allowed is not None and default not in allowed:
        raise Malformed(
            f"metadata.annotations[{names.DEFAULT_PRIORITY_CLASS}]",
            f"{default!r} is not among the allowed classes ({', '.join(allowed)}): add it there "
            "or name one of them",
        )


def _layout(raw: Any, field: str) -> Layout:
    found = _LAYOUTS.get(raw) if isinstance(raw, str) else None
    if found is None:
        raise Malformed(field, f"{raw!r} is neither binpack nor spread")
    return found


def _class(raw: Any, field: str) -> str:
    return _names(raw, field, _NAME, "priority class", most=1)[0]


def _classes(raw: Any, field: str) -> tuple[str, ...]:
    return _names(raw, field, _NAME, "priority class")


def _labels(raw: Any, field: str) -> tuple[str, ...]:
    return _names(raw, field, _LABEL, "label value")


def _names(
    raw: Any, field: str, form: re.Pattern[str], what: str, most: int = _MOST
) -> tuple[str, ...]:
    parts = [p.strip() for p in raw.split(",")] if isinstance(raw, str) else []
    wrong = [p for p in parts if not form.fullmatch(p)]
    if not parts or wrong:
        bad = (wrong or [raw])[0]
        shown = bad[:80] if isinstance(bad, str) else bad
        raise Malformed(field, f"{shown!r} is not a {what}: write names, separated by commas")
    if len(set(parts)) > most:
        raise Malformed(field, f"{len(parts)} names: at most {most} are allowed")
    return tuple(sorted(set(parts)))


def _duration(raw: Any, field: str) -> float:
    found = parse_duration(raw) if isinstance(raw, str) else None
    if found is None or found < 0:
        raise Malformed(field, f"{raw!r} is not a duration of 0s or more, such as 12h")
    return found


def _reserved(raw: Any, field: str) -> ReservedGpus:
    """`8` GPUs, one by one, or `4x2`: four places that have two each."""
    found = _PLACES.fullmatch(raw) if isinstance(raw, str) else None
    places, size = (int(found[1]), int(found[2] or 1)) if found else (-1, 0)
    if not 0 <= places * size <= _LARGEST or size < 1:
        mend = f"is neither a whole number of GPUs from 0 to {_LARGEST} nor places such as 4x2"
        raise Malformed(field, f"{str(raw)[:80]!r} {mend}")
    return ReservedGpus(places * size, size)


def _moment(raw: Any, field: str) -> float:
    try:
        if not isinstance(raw, str) or not _MOMENT.fullmatch(raw):
            raise Malformed(field, "is not RFC 3339")
        return seconds(raw)
    except Malformed:
        mend = f"{raw!r} is not a time: write it as 2026-01-31T12:00:00Z (RFC 3339)"
        raise Malformed(field, mend) from None


def _said(raw: Any, field: str) -> bool:
    return bool(raw)


_READERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    names.PLACEMENT_STRATEGY: ("layout", _layout),
    names.DEFAULT_PRIORITY_CLASS: ("default_priority", _class),
    names.ALLOWED_PRIORITY_CLASSES: ("priorities", _classes),
    names.NODE_POOLS: ("pools", _labels),
    names.GPU_TYPES: ("gpu_types", _labels),
    names.NODE_TOPOLOGY_POLICY: ("align", zone_asks.policies),
    names.MAX_RUN_TIME: ("max_run_time_s", _duration),
    names.RESERVED_GPUS: ("reserved", _reserved),
    names.DRAIN_DEADLINE: ("drain_deadline_s", _moment),
    names.DRAINED: ("drained", _said),
    names.EVICTION_GRACE: ("eviction_grace_s", _duration),
    names.MAX_EVICTION_GRACE: ("max_eviction_grace_s", _duration),
    names.IDLE_JOBS: ("idle", idle_rules.rules),
    names.PROTECTED_HOURS: ("protected", idle_rules.hours),
}

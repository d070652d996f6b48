"""What PodGroups say about giving way and waiting for it: sparse, most gangs say nothing.

Times that others may see changed (checkpoints) are soft: one that cannot be read is named and
counts as unsaid. Durations of the spec are not: a gang whose delay or grace nobody can read starts
nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kai_ray.api import labels as names
from kai_ray.api.durations import parse_duration
from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.snapshot import Floats

from .pod_rows import seconds
from .problems import Malformed

_NAN = math.nan


class Move(NamedTuple):
    """A pod that is to be made again on a node."""

    node: str
    request: tuple[tuple[str, int], ...]  # by the name of the resource row
    charge: tuple[float, float, float]  # to its queue: millicores, bytes, GPUs


@dataclass(frozen=True, slots=True)
class Hold:
    """Nodes kept for pods of a gang, because others left them on its behalf."""

    until_s: float
    nodes: dict[str, str]  # pod -> node
    victims: tuple[str, ...] = ()  # "gang (rule)", as they are shown
    moves: tuple[Move, ...] = ()
    made_s: float = 0.0  # pods of the gang made since then are those pods


@dataclass(frozen=True, slots=True)
class EvictionFacts:
    """NaN = not said."""

    core_safe: bool = False
    stale_since_s: float = _NAN
    staleness_grace_s: float = _NAN
    preemption_delay_s: float = _NAN
    last_eviction_s: float = _NAN
    checkpoint_s: float = _NAN
    queued_since_s: float = _NAN  # earlier than the PodGroup itself where it was suspended
    hold: Hold | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """For comparison: NaN equals itself."""
        numbers = tuple(None if math.isnan(v) else v for v in self._numbers())
        return self.core_safe, numbers, self.hold

    def _numbers(self) -> tuple[float, ...]:
        return (
            self.stale_since_s,
            self.staleness_grace_s,
            self.preemption_delay_s,
            self.last_eviction_s,
            self.checkpoint_s,
            self.queued_since_s,
        )


_SILENT = EvictionFacts()


def read(group: Object) -> EvictionFacts | None:
    """None where nothing is said. Raises Malformed for durations of the spec."""
    meta, spec = group["metadata"], group.get("spec") or {}
    annotations: dict[str, Any] = meta.get("annotations") or {}
    labels: dict[str, Any] = meta.get("labels") or {}
    wants = labels.get(names.PREEMPTIBILITY) or annotations.get(names.PREEMPTIBILITY)
    evicted = [_time(annotations, k) for k in (names.LAST_EVICTION, names.SUSPENDED_AT)]
    evicted = [t for t in evicted if not math.isnan(t)]
    found = EvictionFacts(
        core_safe=wants == names.SEMI_PREEMPTIBLE,
        stale_since_s=_time(annotations, names.STALE_SINCE),
        staleness_grace_s=_duration(spec, "stalenessGracePeriod"),
        preemption_delay_s=_duration(spec, "preemptionDelay"),
        last_eviction_s=max(evicted, default=_NAN),
        checkpoint_s=_time(annotations, names.CHECKPOINT_TIME),
        queued_since_s=_time(annotations, names.QUEUED_SINCE),
        hold=read_hold(annotations.get(names.HOLD)),
    )
    return None if found.key == _SILENT.key else found


def soft_problem(group: Object) -> Malformed | None:
    """What is named but stops nothing."""
    notes: dict[str, Any] = group["metadata"].get("annotations") or {}
    grace = notes.get(names.EVICTION_GRACE)
    if grace is not None and _no_time(grace):
        mend = f"{grace!r} is not a duration of 0s or more, such as 2m: that of its queue holds"
        return Malformed(f"metadata.annotations[{names.EVICTION_GRACE}]", mend)
    text = notes.get(names.CHECKPOINT_TIME)
    if not text:
        return None
    try:
        seconds(text)
    except Malformed:
        mend = f"{text!r} is not a time: write it as 2026-01-31T12:00:00Z (RFC 3339)"
        return Malformed(f"metadata.annotations[{names.CHECKPOINT_TIME}]", mend)
    return None


def _no_time(text: Any) -> bool:
    found = parse_duration(text) if isinstance(text, str) else None
    return found is None or found < 0


def read_hold(text: Any) -> Hold | None:
    """A hold that cannot be read is none: its room is free for all."""
    if not isinstance(text, str) or not text:
        return None
    try:
        raw = json.loads(text)
        nodes = {pod: node for node, pods in raw["nodes"].items() for pod in pods}
        until_s = seconds(raw["until"])
        victims = tuple(str(v) for v in raw.get("victims") or ())
        moves = tuple(_read_move(*move) for move in raw.get("moves") or ())
        made_s = seconds(raw["made"]) if moves else 0.0
        if not all(isinstance(k, str) for k in nodes):
            return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return Hold(until_s, nodes, victims, moves, made_s)


def _read_move(node: Any, request: dict[Any, Any], charge: Any = (0, 0, 0)) -> Move:
    """Raises what `read_hold` takes for a hold that cannot be read."""
    cpu, memory, gpu = (float(amount) for amount in charge)
    if not all(math.isfinite(a) and a >= 0 for a in (cpu, memory, gpu)):
        raise ValueError(f"{charge} are no amounts")
    asked = tuple(sorted((str(r), int(n)) for r, n in request.items()))
    return Move(str(node), asked, (cpu, memory, gpu))


def write_hold(
    until: str,
    nodes: dict[str, str],
    victims: Sequence[str] = (),
    moves: Sequence[Move] = (),
    made: str = "",
) -> str:
    """`nodes`: pod -> node; written node by node, which is shorter. See Hold for the rest."""
    by_node: dict[str, list[str]] = {}
    for pod, node in sorted(nodes.items()):
        by_node.setdefault(node, []).append(pod)
    hold: dict[str, Any] = {"until": until, "nodes": by_node, "victims": list(victims)}
    if moves:
        hold |= {"moves": [(m.node, dict(m.request), m.charge) for m in moves], "made": made}
    return json.dumps(hold, sort_keys=True)


def _time(annotations: dict[str, Any], key: str) -> float:
    text = annotations.get(key)
    if not text:
        return _NAN
    try:
        return seconds(text)
    except Malformed:
        return _NAN


def _duration(spec: dict[str, Any], key: str) -> float:
    text = spec.get(key)
    if text is None:
        return _NAN
    found = parse_duration(text) if isinstance(text, str) else None
    if found is None:
        raise Malformed(f"spec.{key}", f"{text!r} is not a duration such as 90s or 1h30m")
    return found


#: On whose word gangs go that were told so and run until then.
TOLD = "told"


@dataclass(slots=True)
class EvictionTable:
    """The facts by gang, and the gangs that are on their way out as a whole."""

    facts: dict[Key, EvictionFacts] = field(default_factory=dict[Key, EvictionFacts])
    leaving: dict[Key, frozenset[str]] = field(default_factory=dict[Key, frozenset[str]])
    """Gangs that go as a whole, and on whose word: each takes back its own only."""
    leaving_pods: dict[Key, frozenset[str]] = field(default_factory=dict[Key, frozenset[str]])
    """Gangs of which some pods go, by name; the others stay."""
    version: int = 0

    def put(self, key: Key, facts: EvictionFacts | None) -> None:
        before = self.facts.get(key)
        if facts is None:
            if self.facts.pop(key, None) is not None:
                self.version += 1
        elif before is None or before.key != facts.key:
            self.facts[key] = facts
            self.version += 1

    def remove(self, key: Key) -> None:
        self.put(key, None)
        self.leaving.pop(key, None)
        self.leaving_pods.pop(key, None)

    def set_leaving(self, key: Key, leaving: bool, cause: str = "") -> None:
        before = self.leaving.get(key, frozenset())
        after = before | {cause} if leaving else before - {cause}
        if after != before:
            self._set(self.leaving, key, after)

    def set_leaving_pods(self, key: Key, pods: frozenset[str]) -> None:
        if pods != self.leaving_pods.get(key, frozenset()):
            self._set(self.leaving_pods, key, pods)

    def _set(self, table: dict[Key, frozenset[str]], key: Key, value: frozenset[str]) -> None:
        if value:
            table[key] = value
        else:
            table.pop(key, None)
        self.version += 1

    def columns(self, row_of: dict[Key, int], created_s: Floats) -> dict[str, Any]:
        """Columns of Gangs; those that nobody states are left out."""
        said: dict[str, Any] = {}
        named = [(row_of[key], facts) for key, facts in self.facts.items() if key in row_of]
        if not named:
            return said
        safe = np.zeros(len(row_of), dtype=np.bool_)
        created = created_s.copy()
        columns = {name: np.full(len(row_of), _NAN) for name in _TIMES}
        until = np.full(len(row_of), _NAN)
        moved = np.zeros(len(row_of), dtype=np.bool_)
        for row, facts in named:
            safe[row] = facts.core_safe
            for name in _TIMES:
                columns[name][row] = getattr(facts, name)
            if facts.queued_since_s < created[row]:
                created[row] = facts.queued_since_s
            if facts.hold is not None:
                until[row] = facts.hold.until_s
                moved[row] = not facts.hold.nodes
        columns["hold_until_s"] = until
        said = {name: c for name, c in columns.items() if not np.isnan(c).all()}
        if moved.any():
            said["moved"] = moved
        if safe.any():
            said["core_safe"] = safe
        if (created != created_s).any():
            said["created_s"] = created
        return said


_TIMES = (
    "stale_since_s",
    "staleness_grace_s",
    "preemption_delay_s",
    "last_eviction_s",
    "checkpoint_s",
)

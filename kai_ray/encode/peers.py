"""Selectors over pods, as (anti-)affinity and spread constraints use them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .problems import Malformed, text
from .selectors import Labels, Need, Needs, label_selector


class Peers(NamedTuple):
    """Which pods are meant, wherever they run."""

    namespaces: tuple[str, ...]  # sorted
    namespace_needs: Needs | None  # namespaces by label, in addition; () = every namespace
    needs: Needs | None  # None selects no pod


class PeerTermByName(NamedTuple):
    """Peers seen per domain of one node label."""

    topology: str
    peers: Peers


class SpreadByName(NamedTuple):
    term: PeerTermByName
    max_skew: int
    hard: bool
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


def affinity_term(
    raw: dict[str, Any], namespace: str, labels: Labels, field: str
) -> PeerTermByName:
    """One PodAffinityTerm of a pod in `namespace` with `labels` (for matchLabelKeys)."""
    topology = _topology(raw, field)
    needs = label_selector(raw.get("labelSelector"), f"{field}.labelSelector")
    if needs is not None:
        needs = _with_keys(needs, raw.get("matchLabelKeys"), "In", labels)
        needs = _with_keys(needs, raw.get("mismatchLabelKeys"), "NotIn", labels)
    spaces = {text(n, f"{field}.namespaces") for n in raw.get("namespaces") or ()}
    named = tuple(sorted(spaces))
    by_label = label_selector(raw.get("namespaceSelector"), f"{field}.namespaceSelector")
    if not named and by_label is None:
        named = (namespace,)
    return PeerTermByName(topology, Peers(named, by_label, needs))


def spread(raw: dict[str, Any], namespace: str, labels: Labels, field: str) -> SpreadByName:
    """One topology spread constraint."""
    topology = _topology(raw, field)
    skew = raw.get("maxSkew", 1)
    if not isinstance(skew, int) or not 1 <= skew < 2**31:
        raise Malformed(f"{field}.maxSkew", f"{skew!r} is not an integer of at least 1")
    needs = label_selector(raw.get("labelSelector"), f"{field}.labelSelector")
    if needs is not None:
        needs = _with_keys(needs, raw.get("matchLabelKeys"), "In", labels)
    return SpreadByName(
        PeerTermByName(topology, Peers((namespace,), None, needs)),
        skew,
        raw.get("whenUnsatisfiable", "DoNotSchedule") != "ScheduleAnyway",
        min(int(raw.get("minDomains") or 1), 2**31 - 1),
        raw.get("nodeAffinityPolicy", "Honor") != "Ignore",
        raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _topology(raw: dict[str, Any], field: str) -> str:
    topology = text(raw.get("topologyKey"), f"{field}.topologyKey")
    if not topology:
        raise Malformed(f"{field}.topologyKey", "is missing: name a node label")
    return topology


def _with_keys(needs: Needs, keys: Any, op: str, labels: Labels) -> Needs:
    more = [Need(k, op, (labels[k],)) for k in keys or () if k in labels]
    return tuple(sorted({*needs, *more})) if more else needs

"""What a SchedulingShard's spec says about deciding, as a Policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kai_ray.scheduler import Policy
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.actions.consolidation import consolidation
from kai_ray.scheduler.actions.preempt import preempt
from kai_ray.scheduler.actions.reclaim import reclaim
from kai_ray.scheduler.actions.stale_gang import stale_gang
from kai_ray.scheduler.gpu.order import as_they_come, packed, spread_out
from kai_ray.scheduler.policy import Placement, policy
from kai_ray.scheduler.scores.availability import fits_now
from kai_ray.scheduler.scores.gpu_sharing import hosts_share
from kai_ray.scheduler.scores.pod_affinity import liked_company
from kai_ray.scheduler.scores.resource_type import cpu_node_for_cpu_pod
from kai_ray.scheduler.session import Session
from kai_ray.scheduler.victims.knobs import Evicting
from kai_ray.scheduler.victims.min_runtime import Resolution

from .problems import Malformed
from .shard_values import duration, integer, mapping, number, truth

#: Flags of KAI's scheduler that are honoured in spec.args.
FLAGS = (
    "default-staleness-grace-period",
    "max-consolidation-preemptees",
    "allow-consolidating-reclaim",
)
#: KAI's names and default priorities; the higher goes first.
ACTIONS: dict[str, tuple[int, Callable[[Session], None]]] = {
    "allocate": (500, allocate),
    "consolidation": (400, consolidation),
    "reclaim": (300, reclaim),
    "preempt": (200, preempt),
    "stalegangeviction": (100, stale_gang),
}
#: KAI's plugins that do nothing but score nodes.
SCORE_OF: dict[str, Callable[..., Any]] = {
    "podaffinity": liked_company,
    "nodeavailability": fits_now,
    "gpusharingorder": hosts_share,
    "resourcetype": cpu_node_for_cpu_pod,
}


def read_policy(spec: dict[str, Any]) -> Policy:
    strategy = mapping(spec.get("placementStrategy"), "spec.placementStrategy")
    gpu = _placement(strategy.get("gpu"), "spec.placementStrategy.gpu")
    cpu = _placement(strategy.get("cpu"), "spec.placementStrategy.cpu")
    off = _switched_off(spec)
    laid_out = (None, None) if "nodeplacement" in off else (gpu, cpu)
    made = policy(*laid_out, _k_value(spec))
    devices = spread_out if gpu is Placement.SPREAD else packed
    made = _without(off, dataclasses.replace(made, device_order=devices))
    packs = gpu is cpu is Placement.BINPACK  # KAI: nothing is moved together where pods spread
    chosen = _actions(spec, {"consolidation": packs})
    return dataclasses.replace(
        made,
        actions=tuple(ACTIONS[name][1] for name in chosen),
        depths=_depths(spec, chosen),
        evicting=_evicting(spec, made.evicting),
        mig_by_share=_mig_by_share(spec),
    )


def _switched_off(spec: dict[str, Any]) -> set[str]:
    """Plugins that are disabled; those that have no counterpart here may be named as well."""
    found: set[str] = set()
    for name, raw in mapping(spec.get("plugins"), "spec.plugins").items():
        said = mapping(raw, f"spec.plugins[{name}]").get("enabled")
        if said is not None and not isinstance(said, bool):
            raise Malformed(f"spec.plugins[{name}].enabled", f"{said!r} is neither true nor false")
        if said is False:
            found.add(name)
    return found


def _without(off: set[str], made: Policy) -> Policy:
    gone = {SCORE_OF[name] for name in off if name in SCORE_OF}
    changes: dict[str, Any] = {"scores": tuple(s for s in made.scores if s.rate not in gone)}
    if "nominatednode" in off:
        changes["nominated_weight"] = 0.0
    if "gpupack" in off and made.device_order is packed:
        changes["device_order"] = as_they_come
    if "gpuspread" in off and made.device_order is spread_out:
        changes["device_order"] = as_they_come
    return dataclasses.replace(made, **changes)


def _placement(raw: Any, field: str) -> Placement:
    try:
        return Placement(raw or "binpack")
    except ValueError:
        raise Malformed(field, f"{raw!r} is neither binpack nor spread") from None


def _k_value(spec: dict[str, Any]) -> float:
    raw, field = spec.get("kValue"), "spec.kValue"
    if raw is None:
        raw, field = _argument(spec, "proportion", "kValue")
    return 1.0 if raw is None else number(raw, field, 0, 1e6)


def _argument(spec: dict[str, Any], plugin: str, name: str) -> tuple[Any, str]:
    """An argument of a plugin, None where it is not given, and the field that it stands in."""
    at = f"spec.plugins[{plugin}]"
    stated = mapping(mapping(spec.get("plugins"), "spec.plugins").get(plugin), at)
    return mapping(stated.get("arguments"), f"{at}.arguments").get(name), f"{at}.arguments[{name}]"


def _mig_by_share(spec: dict[str, Any]) -> bool:
    """Ours: whether queues are charged the part of a card that a MIG profile is."""
    raw, field = _argument(spec, "proportion", "migByShare")
    return False if raw is None else truth(raw, field)


def _depths(
    spec: dict[str, Any], chosen: Sequence[str]
) -> tuple[tuple[Callable[[Session], None], int], ...]:
    found: list[tuple[Callable[[Session], None], int]] = []
    stated = mapping(spec.get("queueDepthPerAction"), "spec.queueDepthPerAction")
    for name, raw in sorted(stated.items()):
        field = f"spec.queueDepthPerAction[{name}]"
        if name not in chosen:
            raise Malformed(field, f"is no action that is enabled: those are {', '.join(chosen)}")
        found.append((ACTIONS[name][1], integer(raw, field, 1)))
    return tuple(found)


def _actions(spec: dict[str, Any], defaults: Mapping[str, bool]) -> tuple[str, ...]:
    """The actions that are enabled, in their order."""
    stated = mapping(spec.get("actions"), "spec.actions")
    for name in stated:
        if name not in ACTIONS:
            mend = f"is no action: there are {', '.join(ACTIONS)}"
            raise Malformed(f"spec.actions[{name}]", mend)
    order: list[tuple[int, str]] = []
    for name, (priority, _) in ACTIONS.items():
        said = mapping(stated.get(name), f"spec.actions[{name}]")
        enabled = said.get("enabled")
        if enabled is None:
            enabled = defaults.get(name, True)
        rank = said.get("priority")
        if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int)):
            raise Malformed(f"spec.actions[{name}].priority", f"{rank!r} is not an integer")
        if enabled:
            order.append((-(priority if rank is None else rank), name))
    return tuple(name for _, name in sorted(order))


def _evicting(spec: dict[str, Any], knobs: Evicting) -> Evicting:
    changes: dict[str, Any] = {}
    stated = mapping(spec.get("minRuntime"), "spec.minRuntime")
    for key, knob, argument in (
        ("preemptMinRuntime", "preempt_min_runtime_s", "defaultPreemptMinRuntime"),
        ("reclaimMinRuntime", "reclaim_min_runtime_s", "defaultReclaimMinRuntime"),
    ):
        raw, field = stated.get(key), f"spec.minRuntime.{key}"
        if raw is None:
            raw, field = _argument(spec, "minruntime", argument)
        if raw is not None:
            changes[knob] = duration(raw, field, 0.0)
    raw, field = _argument(spec, "minruntime", "reclaimResolveMethod")
    if raw is not None:
        changes["resolution"] = _resolution(raw, field)
    raw, field = _argument(spec, "proportion", "relcaimerSaturationMultiplier")  # KAI's spelling
    if raw is not None:
        changes["saturation_multiplier"] = number(raw, field, 0, 1e6)
    return dataclasses.replace(knobs, **changes, **_flags(spec))


def _resolution(raw: Any, field: str) -> Resolution:
    try:
        return Resolution(str(raw).lower())
    except ValueError:
        raise Malformed(field, f"{raw!r} is neither lca nor queue") from None


def _flags(spec: dict[str, Any]) -> dict[str, Any]:
    """KAI's command line flags that say what to decide; it ignores flags it does not know."""
    args, found = mapping(spec.get("args"), "spec.args"), dict[str, Any]()
    grace, most, moving = (args.get(flag) for flag in FLAGS)
    if grace is not None:
        field = f"spec.args[{FLAGS[0]}]"
        found["staleness_grace_s"] = duration(grace, field, None)
    if most is not None:
        found["max_moved_gangs"] = integer(most, f"spec.args[{FLAGS[1]}]", 0)
    if moving is not None:
        found["moving_is_taking"] = not truth(moving, f"spec.args[{FLAGS[2]}]")
    return found

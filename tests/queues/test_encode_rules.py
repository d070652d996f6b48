"""Rules of queues kept up to date by events equal those read anew, and stay cheap when wrong."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Resource, key_of
from kai_ray.encode import Encoder
from kai_ray.history.usage import Holder, Usage
from kai_ray.scheduler import decide
from tests.control.objects import node, pod, podgroup, queue
from tests.control.test_encode_incremental import picture as _picture

_NOW = 1_800_000_000.0
_names = st.sampled_from(["a", "b", "c"])
_notes = st.fixed_dictionaries(
    {},
    optional={
        L.PLACEMENT_STRATEGY: st.sampled_from(["binpack", "spread", "odd"]),
        L.NODE_POOLS: st.sampled_from(["blue", "green,blue", "!"]),
        L.GPU_TYPES: st.sampled_from(["H100", "A100"]),
        L.ALLOWED_PRIORITY_CLASSES: st.sampled_from(["train", "build,train"]),
        L.DEFAULT_PRIORITY_CLASS: st.sampled_from(["train", "build"]),
        L.MAX_RUN_TIME: st.sampled_from(["1h", "0s", "x"]),
        L.RESERVED_GPUS: st.sampled_from(["0", "3", "-2"]),
        L.DRAINED: st.just("2026-01-01T00:00:00Z"),
    },
)
_traits = st.fixed_dictionaries(
    {},
    optional={
        L.USER: st.sampled_from(["ada", "bob"]),
        L.WORKLOAD_TYPE: st.sampled_from(["build", "train", "magic"]),
        L.SUSPENDED: st.sampled_from(["true", "false"]),
        L.MAX_RUN_TIME_REACHED: st.just("2026-01-01T00:00:00Z"),
    },
)


@st.composite
def _changes(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    name = draw(_names)
    which = draw(st.sampled_from(["queue", "node", "group", "pod", "pod"]))
    if which == "queue":
        made = queue(name, draw(st.sampled_from(["", "a"])) if name != "a" else "")
        made["metadata"]["annotations"] = draw(_notes)
        return kinds.QUEUE, made
    if which == "node":
        labels = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    L.NODE_POOL_NAMES[2]: st.sampled_from(["blue", "green"]),
                    L.GPU_PRODUCT: st.sampled_from(["NVIDIA-H100-80GB", "NVIDIA-A100"]),
                    L.RESERVED_FOR: st.sampled_from(["build", "train.build"]),
                },
            )
        )
        return kinds.NODE, node(name, draw(st.sampled_from([0, 8])), labels=labels)
    if which == "group":
        more = {"priorityClassName": draw(st.sampled_from(["train", "build"]))}
        made = podgroup(name, draw(_names), 1, **(more if draw(st.booleans()) else {}))
        made["metadata"]["labels"] = made["metadata"]["annotations"] = draw(_traits)
        return kinds.POD_GROUP, made
    placed = draw(st.sampled_from(["", "a", "b"]))
    phase = "Running" if placed else "Pending"
    gpus = draw(st.sampled_from([0, 1, 2]))
    return kinds.POD, pod(f"p{name}", draw(_names), gpus=gpus, node=placed, phase=phase)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(_changes(), st.booleans()), max_size=25), st.booleans())
def test_events_in_any_order_give_what_a_list_gives(changes: list, used: bool) -> None:
    encoder, world = Encoder(), {}
    usage = Usage({"a": (0.1, 0.2, 0.3)}, {Holder("a", "ada"): (0.5, 0.0, 0.1)})
    for name, value in (("train", 50), ("build", 100)):
        made = {"metadata": {"name": name}, "value": value}
        encoder.apply(kinds.PRIORITY_CLASS, None, made)
        world[kinds.PRIORITY_CLASS, key_of(made)] = made
    for (resource, obj), goes in changes:
        slot = (resource, key_of(obj))
        encoder.apply(resource, world.get(slot), None if goes else obj)
        world.pop(slot, None)
        if not goes:
            world[slot] = obj
        encoder.snapshot(_NOW)
    fresh = Encoder()
    if used:
        encoder.set_usage(usage)
        fresh.set_usage(usage)
    for (resource, _), obj in sorted(world.items(), key=lambda item: repr(item[0]), reverse=True):
        fresh.apply(resource, None, obj)
    ours, theirs = encoder.snapshot(_NOW), fresh.snapshot(_NOW)
    assert _picture(ours) == _picture(theirs)
    ours.snapshot.validate()
    decide(ours.snapshot)


def test_bad_input_costs_others_nothing() -> None:
    """Thousands of gangs and queues that say what cannot be: a cycle takes no longer for it."""
    spent: list[float] = []
    for bad in (False, True):
        encoder = Encoder()
        for i in range(20):
            encoder.apply(kinds.NODE, None, node(f"n{i:02d}", 8))
        for i in range(300):
            made = queue(f"q{i:03d}")
            if bad and i % 2:
                made["metadata"]["annotations"] = {L.NODE_POOLS: "!" * 5000, L.RESERVED_GPUS: "x"}
            encoder.apply(kinds.QUEUE, None, made)
        for i in range(1500):
            group = podgroup(f"g{i:04d}", f"q{i % 300:03d}", 1)
            if bad and i % 2:
                group["metadata"]["labels"] = {L.WORKLOAD_TYPE: "magic", L.USER: "u" * 10_000}
            encoder.apply(kinds.POD_GROUP, None, group)
            encoder.apply(kinds.POD, None, pod(f"p{i:04d}", f"g{i:04d}"))
        began = time.process_time()
        plan = decide(encoder.snapshot(_NOW).snapshot)
        spent.append(time.process_time() - began)
        assert plan.bind_task.shape[0] == 160
    assert spent[1] < 2 * spent[0] + 0.2

"""Devices kept up to date by events are those of a fresh start, byte for byte."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Resource, key_of
from kai_ray.encode import DEVICE_RESOURCES, Encoded, Encoder
from kai_ray.encode.encoder import RESOURCES
from tests.control import objects
from tests.control.test_encode_incremental import picture
from tests.dra import objects as o

_NOW = 1_800_000_000.0
_few = st.sampled_from(["a", "b"])
_CLASSES = ("gpu.nvidia.com", "nic.example.com", "missing.example.com")
_WHERE = (
    f"device.attributes['{o.GPU_DRIVER}'].numaNode == 0",
    f"device.attributes['{o.GPU_DRIVER}'].productName == 'H100'",
    "not cel (",
)
Change = tuple[Resource, dict[str, Any]]


@st.composite
def _spec(draw: st.DrawFn) -> dict[str, Any]:
    requests = [
        o.exactly(
            f"r{i}",
            draw(st.sampled_from(_CLASSES)),
            draw(st.integers(1, 2)),
            where=draw(st.lists(st.sampled_from(_WHERE), max_size=1)),
            **draw(st.sampled_from([{}, {}, {"allocationMode": "All"}, {"adminAccess": True}])),
        )
        for i in range(draw(st.integers(0, 2)))
    ]
    more = draw(
        st.sampled_from(
            [
                {},
                {},
                {"constraints": [{"matchAttribute": "gpu.nvidia.com/numaNode"}]},
                {"requests": 1},
            ]
        )
    )
    return o.spec(*requests) | ({"devices": more} if "requests" in more else {})


@st.composite
def _claims(draw: st.DrawFn) -> Change:
    owner = draw(st.sampled_from(["", "a", "b"]))
    meta: dict[str, Any] = {"uid": draw(_few)}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": owner}]
    made = o.claim(draw(_few), draw(_spec()), queue=draw(st.sampled_from(["", "team"])), meta=meta)
    if draw(st.booleans()):
        devices = draw(st.sets(st.sampled_from(["gpu-0", "gpu-1", "gpu-9"]), max_size=2))
        status: dict[str, Any] = {"allocation": o.allocation(draw(_few), *sorted(devices))}
        if draw(st.booleans()):
            status["reservedFor"] = o.reserved("a")
        made["status"] = draw(st.sampled_from([status, {"allocation": {"devices": 3}}]))
    return kinds.RESOURCE_CLAIM, made


@st.composite
def _offers(draw: st.DrawFn) -> Change:
    which = draw(st.integers(0, 4))
    if which == 0:
        return kinds.DEVICE_CLASS, o.device_class(draw(st.sampled_from(_CLASSES[:2])))
    if which == 1:
        return kinds.RESOURCE_CLAIM_TEMPLATE, o.template(draw(_few))
    driver = draw(st.sampled_from(_CLASSES[:2]))
    where = draw(st.sampled_from([{}, {}, {"where": {"allNodes": True}}]))
    pool = {"generation": draw(st.integers(1, 2))}
    return kinds.RESOURCE_SLICE, o.slice_of(
        draw(_few), o.gpus(draw(st.integers(0, 3)), per_numa=2), driver, pool=pool, **where
    )


@st.composite
def _pods(draw: st.DrawFn) -> Change:
    name = draw(_few)
    entry: dict[str, Any] = {"name": "c"}
    entry |= draw(
        st.sampled_from(
            [{"resourceClaimName": "a"}, {"resourceClaimTemplateName": "b"}, {}, {"name": 1}]
        )
    )
    note = draw(st.sampled_from([{}, {"kai.scheduler/node-topology-policy": "single-numa"}]))
    made = objects.pod(
        name,
        draw(st.sampled_from(["a", ""])),
        gpus=draw(st.integers(0, 1)),
        node=draw(st.sampled_from(["", "", "a", "b"])),
        phase=draw(st.sampled_from(["Pending", "Running"])),
        scheduler=draw(st.sampled_from(["kai-scheduler", "else"])),
        uid=name,
        resourceClaims=[entry],
        annotations=note,
    )
    statuses = [{"name": "c", "resourceClaimName": draw(st.sampled_from(["a", "b", None]))}]
    made["status"]["resourceClaimStatuses"] = draw(st.sampled_from([None, statuses]))
    return kinds.POD, made


@st.composite
def _rest(draw: st.DrawFn) -> Change:
    if draw(st.booleans()):
        return kinds.NODE, objects.node(draw(_few), draw(st.integers(0, 1)))
    return kinds.POD_GROUP, objects.podgroup("a", draw(st.sampled_from(["team", "none"])))


_change = st.one_of(_claims(), _offers(), _pods(), _rest())


def _fed(live: dict[tuple[Resource, Key], dict[str, Any]]) -> Encoded:
    fresh = Encoder()
    fresh.apply(kinds.QUEUE, None, objects.queue("team"))
    for resource in reversed((*RESOURCES, *DEVICE_RESOURCES)):
        for (known, _), obj in sorted(live.items(), key=lambda i: str(i[0][1]), reverse=True):
            if known == resource:
                fresh.apply(resource, None, obj)
    return fresh.snapshot(_NOW)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(_change, st.integers(0, 3), st.booleans()), max_size=30))
def test_events_lead_to_what_a_fresh_start_sees(steps: list[Any]) -> None:
    kept = Encoder()
    kept.apply(kinds.QUEUE, None, objects.queue("team"))
    live: dict[tuple[Resource, Key], dict[str, Any]] = {}
    for (resource, obj), fate, look in steps:
        slot = (resource, key_of(obj))
        old = live.get(slot)
        if fate == 0 and old is not None:
            del live[slot]
            kept.apply(resource, old, None)
        else:
            live[slot] = obj
            kept.apply(resource, old, copy.deepcopy(obj))
        if look:
            kept.snapshot(_NOW)
    seen = kept.snapshot(_NOW)
    assert picture(seen) == picture(_fed(live))
    seen.snapshot.validate()


def test_a_decision_in_flight_holds_its_devices_until_it_is_seen_or_taken_back() -> None:
    from kai_ray.encode.dra.claims import Held
    from kai_ray.encode.dra.slices import DeviceId

    encoder = Encoder()
    claim = o.claim("a", meta={"uid": "u"})
    encoder.apply(kinds.RESOURCE_CLAIM, None, claim)
    device = DeviceId(o.GPU_DRIVER, "n", "gpu-0")
    held, key, pod = Held((device,), None), Key("default", "a"), Key("default", "p")
    encoder.assume(pod, "p", "n", claims=[(key, "other", held)])
    assert encoder.devices.taken() == {}, "another claim of the name"
    encoder.assume(pod, "p", "n", claims=[(key, "u", held)])
    assert encoder.devices.taken() == {device: key}
    encoder.forget(pod)
    assert encoder.devices.taken() == {}
    encoder.assume(pod, "p", "n", claims=[(key, "u", held)])
    told = {**claim, "status": {"allocation": o.allocation("n", "gpu-1")}}
    encoder.apply(kinds.RESOURCE_CLAIM, claim, told)
    encoder.forget(pod)
    assert [d.device for d in encoder.devices.taken()] == ["gpu-1"], "what the claim says holds"
    encoder.apply(kinds.RESOURCE_CLAIM, told, None)
    assert encoder.devices.taken() == {}

"""What claims may ask, one table each: which devices a pod gets, or in which words it waits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control import objects
from tests.dra import objects as o
from tests.dra.planning import Planned

NIC = "nic.example.com"


def _nics(count: int, per_numa: int = 1) -> list[dict[str, Any]]:
    return [
        o.device(f"nic-{i}", attributes={"numaNode": i // per_numa, "kind": "rdma"})
        for i in range(count)
    ]


def _world(*more: Any, gpus: list[Any] | None = None, nodes: int = 1) -> Planned:
    every = [o.slice_of(f"node-{i}", gpus or o.gpus(4, per_numa=2)) for i in range(nodes)]
    return Planned(*every, *more, nodes=nodes)


MEMORY = "device.capacity['gpu.nvidia.com'].memory"
MODEL = "device.attributes['gpu.nvidia.com'].productName"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (o.exactly(), 1),
        (o.exactly(count=4), 4),
        (o.exactly(count=5), 0),
        (o.exactly(allocationMode="All"), 4),
        (o.exactly(where=[f"{MODEL} == 'H100'"]), 1),
        (o.exactly(where=[f"{MODEL} == 'A100'"]), 0),
        (o.exactly(where=[f"{MODEL}.matches('^H.*')", "device.driver != ''"]), 1),
        (o.exactly(where=[f"{MEMORY}.isGreaterThan(quantity('40Gi'))"]), 1),
        (o.exactly(where=[f"{MEMORY}.compareTo(quantity('81Gi')) >= 0"]), 0),
        (o.exactly(where=["device.attributes['gpu.nvidia.com'].numaNode == 1"], count=2), 2),
        (o.exactly(where=["device.attributes['gpu.nvidia.com'].numaNode == 1"], count=3), 0),
        (o.exactly(where=["has(device.attributes['other.com'].x)"]), 0),
        (o.exactly(where=["device.attributes['other.com'].x == 1"]), 0),
        ({"name": "flat", "deviceClassName": o.GPU_DRIVER, "count": 2}, 2),
    ],
)  # fmt: skip
def test_requests(request_: Any, expected: int) -> None:
    world = _world()
    world.pod("p", o.spec(request_))
    found = world.devices()
    assert len(found.get("p", ())) == expected
    assert all(not d.startswith("!") for d in found.get("p", ()))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (o.spec(o.exactly(where=["device.driver =="])), "no CEL that is understood"),
        (o.spec(o.exactly(where=["nonsense(device)"])), "uses nonsense, which is not known here"),
        (o.spec(o.exactly(where=["cel.bind(a, device.driver, a == 'x')"])), "uses cel.bind"),
        (o.spec(o.exactly(where=["x" * 20_000])), "longer than"),
        (o.spec(o.exactly(count=-1)), "no number of devices from 1 to 32"),
        (o.spec(o.exactly(count=10**9)), "no number of devices from 1 to 32"),
        (o.spec(o.exactly(allocationMode="Some")), "neither ExactCount nor All"),
        (o.spec(o.exactly(capacity={"requests": {"memory": "1Gi"}})), "only whole devices"),
        (o.spec({"name": "a"}), "neither `exactly` nor `firstAvailable`"),
        (o.spec({"name": "a", "exactly": {"count": 1}}), "name a DeviceClass"),
        (o.spec(constraints=[{"distinctAttribute": "a/b"}]), "only matchAttribute is understood"),
        (o.spec(constraints=[{"matchAttribute": "b"}]), "write domain/name"),
        (o.spec(o.exactly(selectors=[{"else": 1}])), "only `cel` is understood"),
        ({"devices": {"requests": "gpu"}}, "p-c0"),
        ({"devices": []}, "p-c0"),
        (
            o.spec(o.exactly("a", allocationMode="All"), o.exactly("b")),
            "asks for all devices that another of its requests asks for too",
        ),
    ],
)
def test_what_cannot_be_understood_waits_in_words_that_name_the_claim(
    body: Any, words: str
) -> None:
    world = _world()
    world.pod("p", body)
    world.pod("q", o.spec())
    found = world.devices()
    if "p" in found:  # a claim without any request is met by nothing
        assert found["p"] == []
        return
    text = world.waits("p")
    assert words in text and "p-c0" in text, text
    assert len(found["q"]) == 1, "the others go on"


def test_all_devices_go_to_one_pod_and_it_waits_for_all_of_them() -> None:
    world = _world()
    world.pod("a", o.spec(o.exactly(allocationMode="All")))
    world.pod("b", o.spec())
    assert {k: len(v) for k, v in world.devices().items()} == {"a": 4}
    world = _world()
    world.pod("a", o.spec())
    world.pod("b", o.spec(o.exactly(allocationMode="All")))
    assert {k: len(v) for k, v in world.devices().items()} == {"a": 1}


def test_overlapping_requests_share_what_there_is_in_the_best_way() -> None:
    """Two want any GPU, two an H100: the A100s are for those who take any."""
    gpus = [*o.gpus(2, "H100"), *(d | {"name": f"a-{i}"} for i, d in enumerate(o.gpus(2, "A100")))]
    for order in ("any", "h"), ("h", "any"):
        world = _world(gpus=gpus)
        for rank, kind in enumerate(order):
            for i in range(2):
                where = [f"{MODEL} == 'H100'"] if kind == "h" else []
                world.pod(f"{rank}-{kind}-{i}", o.spec(o.exactly(where=where)))
        found = world.devices()
        assert len(found) == 4, found
        assert all("gpu-" in d for k, v in found.items() if "-h-" in k for d in v)


def test_the_first_alternative_that_is_free_is_taken() -> None:
    def ask() -> Any:
        fast = o.exactly("fast", where=[f"{MODEL} == 'H100'"])["exactly"] | {"name": "fast"}
        slow = o.exactly("slow", where=[f"{MODEL} == 'A100'"])["exactly"] | {"name": "slow"}
        return o.spec({"name": "gpu", "firstAvailable": [fast, slow]})

    world = _world(gpus=[*o.gpus(1), *(d | {"name": "old"} for d in o.gpus(1, "A100"))])
    world.pod("a", ask())
    assert world.devices() == {"a": ["node-0/gpu-0"]}
    held = {"allocation": o.allocation("node-0", "gpu-0")}
    world.apply(o.claim("theirs", meta={"uid": "theirs"}, status=held))
    assert world.devices() == {"a": ["node-0/old"]}


PCIE = "gpu.nvidia.com/numaNode"


def test_devices_of_a_constraint_have_the_same_value() -> None:
    world = _world()  # cells of two
    pair = o.spec(o.exactly(count=2), constraints=[{"matchAttribute": PCIE}])
    world.pod("a", o.spec())
    world.pod("b", pair)
    world.pod("c", pair)
    found = world.devices()
    assert sorted(found) == ["a", "b"]
    assert found["b"] in (["node-0/gpu-0", "node-0/gpu-1"], ["node-0/gpu-2", "node-0/gpu-3"])
    world = _world()
    world.pod("d", o.spec(o.exactly(count=3), constraints=[{"matchAttribute": PCIE}]))
    assert world.devices() == {}
    assert "belong together as claimed" in world.waits("d")


def test_a_constraint_may_bind_some_of_the_requests_only() -> None:
    world = _world()
    some = [{"matchAttribute": PCIE, "requests": ["x", "y"]}]
    world.pod(
        "a", o.spec(o.exactly("x"), o.exactly("y"), o.exactly("z", count=2), constraints=some)
    )
    assert len(world.devices()["a"]) == 4


def test_a_gpu_and_its_network_card_by_an_attribute_of_both() -> None:
    root = "resource.kubernetes.io/pcieRoot"
    gpus = [o.device(f"gpu-{i}", attributes={root: f"r{i}"}) for i in range(3)]
    nics = [o.device(f"nic-{i}", attributes={root: f"r{i + 1}"}) for i in range(2)]
    world = Planned(
        o.slice_of("node-0", gpus), o.slice_of("node-0", nics, NIC), o.device_class(NIC)
    )
    both = o.spec(o.exactly(), o.exactly("nic", NIC), constraints=[{"matchAttribute": root}])
    for name in "abc":
        world.pod(name, both)
    found = world.devices()
    assert found == {
        "a": ["node-0/gpu-1", "node-0/nic-0"],
        "b": ["node-0/gpu-2", "node-0/nic-1"],
    }


def test_the_policy_of_a_pod_holds_for_the_devices_it_claims() -> None:
    nics = o.slice_of("node-0", _nics(2), NIC)
    world = _world(nics, o.device_class(NIC))
    both = (o.spec(o.exactly(count=2)), o.spec(o.exactly("nic", NIC)))
    note = {"kai.scheduler/node-topology-policy": "single-numa"}
    world.pod("a", *both, annotations=note)
    world.pod("b", *both, annotations=note)
    found = world.devices()
    assert found == {
        "a": ["node-0/gpu-0", "node-0/gpu-1", "node-0/nic-0"],
        "b": ["node-0/gpu-2", "node-0/gpu-3", "node-0/nic-1"],
    }
    world = _world(nics, o.device_class(NIC))
    world.pod("c", o.spec(o.exactly(count=3)), annotations=note)
    assert world.devices() == {}


def test_linked_gpus_are_given_together_where_a_pod_asks_for_that() -> None:
    gpus = [
        d | {"attributes": d["attributes"] | {"linkDomain": {"string": f"l{i % 2}"}}}
        for i, d in enumerate(o.gpus(4))
    ]
    world = _world(gpus=gpus)
    note = {"kai.scheduler/node-topology-policy": "nvlink"}
    world.pod("a", o.spec(o.exactly(count=2)), annotations=note)
    assert world.devices() == {"a": ["node-0/gpu-0", "node-0/gpu-2"]}
    world.pod("b", o.spec(o.exactly(count=3)), annotations=note)
    assert "b" not in world.devices()


def test_devices_of_one_cell_are_preferred_without_being_asked_for() -> None:
    world = _world()
    world.pod("a", o.spec())
    world.pod("b", o.spec(o.exactly(count=2)))
    found = world.devices()
    assert found["b"] in (["node-0/gpu-0", "node-0/gpu-1"], ["node-0/gpu-2", "node-0/gpu-3"])


def test_who_only_looks_at_devices_takes_none() -> None:
    world = _world()
    world.pod("a", o.spec(o.exactly(count=4)))
    world.pod("b", o.spec(o.exactly(adminAccess=True, allocationMode="All")))
    assert len(world.placed()) == 2
    assert world.devices()["b"] == [], "held by nobody"
    world.pod("c", o.spec(o.exactly(adminAccess=True, count=5)))
    assert "c" not in world.placed()


@pytest.mark.parametrize(
    ("more", "free"),
    [
        ({}, 2),
        ({"pool": {"generation": 2, "resourceSliceCount": 2}}, 0),  # not complete
        ({"where": {"nodeName": "elsewhere"}}, 0),
        ({"where": {"allNodes": True}}, 2),
        ({"where": {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]}]}]}}}, 2),
        ({"where": {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "rack", "operator": "Exists"}]}]}}}, 0),
        ({"where": {"perDeviceNodeSelection": True}}, 0),  # and the devices say nothing
    ],
)  # fmt: skip
def test_slices(more: Any, free: int) -> None:
    world = Planned(o.slice_of("node-0", o.gpus(2), **more))
    for i in range(3):
        world.pod(f"p{i}", o.spec())
    got = [d for d in world.devices().values() if d and not d[0].startswith("!")]
    assert len(got) == free


def test_the_newest_generation_of_a_pool_counts() -> None:
    old = o.slice_of("node-0", o.gpus(4), name="old")
    new = o.slice_of("node-0", o.gpus(1), name="new", pool={"generation": 2})
    world = Planned(old, new)
    for i in range(3):
        world.pod(f"p{i}", o.spec())
    assert len(world.devices()) == 1


@pytest.mark.parametrize(
    "strange",
    [
        {"consumesCounters": [{"counterSet": "s", "counters": {}}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["ready"], "bindsToNode": True},
    ],
)
def test_devices_that_are_not_offered_whole_are_left_out_in_words(strange: Any) -> None:
    devices = [*o.gpus(1), o.device("odd", **strange)]
    world = Planned(o.slice_of("node-0", devices))
    for i in range(2):
        world.pod(f"p{i}", o.spec())
    assert world.devices() == {"p0": ["node-0/gpu-0"]}
    (problem,) = world.encoded().problems
    assert problem.kind == "ResourceSlice" and "odd" in problem.mend


def test_a_tainted_device_goes_to_those_who_tolerate_it() -> None:
    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    world = Planned(o.slice_of("node-0", [o.device("gpu-0", taints=[taint])]))
    world.pod("a", o.spec())
    assert world.devices() == {}
    world.pod("b", o.spec(o.exactly(tolerations=[{"key": "sick", "operator": "Exists"}])))
    assert world.devices() == {"b": ["node-0/gpu-0"]}


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": {"driver": 1}},
        {"spec": {}},
        {"spec": {"driver": "a", "nodeName": "node-0", "pool": {"name": "p"}, "devices": [{}]}},
        {"spec": {"driver": "a", "nodeName": "node-0", "pool": {"name": "p"}, "devices": "x"}},
        {"spec": {"driver": "a", "nodeName": "node-0", "pool": {"name": "p", "generation": "1"}}},
        {"spec": {"driver": "a", "pool": {"name": "p"}, "devices": []}},
    ],
)
def test_a_slice_that_cannot_be_read_offers_nothing_and_is_named(broken: Any) -> None:
    bad = o.slice_of("node-0", [], name="bad") | broken
    world = _world(bad)
    world.pod("p", o.spec())
    assert len(world.devices()["p"]) == 1
    if broken["spec"].get("devices") != [{}]:
        assert [p.name for p in world.encoded().problems] == ["bad"]


def test_gpus_of_claims_count_against_the_quota_of_the_queue() -> None:
    world = _world()
    quota = {"quota": 0, "limit": 2, "overQuotaWeight": 1}
    world.apply(objects.queue("team", gpu=quota))
    for i in range(3):
        world.pod(f"p{i}", o.spec())
    assert len(world.devices()) == 2
    assert "limit" in world.waits("p2").lower() or "may hold" in world.waits("p2")


def test_a_class_that_is_no_gpu_costs_a_queue_no_gpu() -> None:
    world = Planned(o.slice_of("node-0", _nics(4), NIC), o.device_class(NIC))
    world.apply(objects.queue("team", gpu={"quota": 0, "limit": 0, "overQuotaWeight": 0}))
    for i in range(3):
        world.pod(f"p{i}", o.spec(o.exactly("nic", NIC)))
    assert len(world.devices()) == 3


def test_older_versions_of_the_api_are_read_too() -> None:
    """v1beta1 keeps a device's body under `basic` and a request's fields in the request."""
    body = o.gpus(1)[0]
    basic = {"name": body.pop("name"), "basic": body}
    world = Planned(o.slice_of("node-0", [basic]))
    selectors = [{"cel": {"expression": f"{MODEL} == 'H100'"}}]
    flat = {"name": "gpu", "deviceClassName": o.GPU_DRIVER, "selectors": selectors}
    world.pod("p", o.spec(flat))
    assert world.devices() == {"p": ["node-0/gpu-0"]}


@pytest.mark.parametrize(
    ("served", "found"), [(("v1", "v1beta1"), "v1"), (("v1beta1",), "v1beta1"), ((), "")]
)
def test_the_newest_version_that_a_server_has_is_used(served: tuple[str, ...], found: str) -> None:
    from kai_ray.cluster.port import NotFound, Page
    from kai_ray.cluster.served import device_kinds

    class Server:
        def list(self, resource: Any, **more: Any) -> Page:
            if resource.version not in served:
                raise NotFound("the server could not find the requested resource")
            return Page([], "1")

    assert {kind.version for kind in device_kinds(Server())} == ({found} if found else set())  # type: ignore[arg-type]


def test_the_default_of_a_queue_aligns_what_its_pods_claim() -> None:
    world = _world()
    queue = objects.queue("team")
    queue["metadata"]["annotations"] = {"kai.scheduler/node-topology-policy": "single-numa"}
    world.apply(queue)
    world.pod("a", o.spec(o.exactly(count=3)))
    assert world.devices() == {}, "no cell has three"
    world.pod("b", o.spec(o.exactly(count=2)))
    assert sorted(world.devices()) == ["b"]


def test_a_claim_holds_as_many_devices_as_its_status_can_say() -> None:
    world = Planned(o.slice_of("node-0", o.gpus(40)))
    world.pod("a", o.spec(o.exactly("a", count=20), o.exactly("b", count=20)))
    assert "at most 32" in world.waits("a")
    world = Planned(o.slice_of("node-0", o.gpus(40)))
    world.pod("a", o.spec(o.exactly(allocationMode="All")))
    assert "more than the 32 that a claim holds" in world.devices()["a"][0]


def test_more_kinds_of_requests_than_anybody_needs_hold_up_nobody_else() -> None:
    world = Planned(o.slice_of("node-0", o.gpus(8)))
    for i in range(400):
        where = [f"{MODEL} == 'H100' && {i} == {i}"]
        world.pod(f"x{i:03d}", o.spec(o.exactly(count=2, where=where)))
    world.pod("plain", o.spec())
    encoded, _ = world.plan()
    assert len(encoded.snapshot.resources) < 64
    found = world.devices()
    assert "plain" in found and not [d for of in found.values() for d in of if d.startswith("!")]
    waits = [world.waits(f"x{i:03d}") for i in (350, 399)]
    assert [w for w in waits if "use a DeviceClass" in w]

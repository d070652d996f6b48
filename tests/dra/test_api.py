"""The embedded API server keeps these kinds as a real one does."""

from __future__ import annotations

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.memory.kinds import builtin_kinds
from kai_ray.cluster.port import Conflict, Invalid
from kai_ray.cluster.rest.printers.book import printer_of
from tests.dra import objects as o


def _store() -> MemoryStore:
    store = MemoryStore(seed=1)
    store.create(R.NAMESPACE, {"metadata": {"name": "default"}})
    return store


def _row(obj):
    kind = R.BY_KIND[obj["apiVersion"], obj["kind"]]
    served = next(s for s in builtin_kinds() if s.resource == kind)
    printer = printer_of(served)
    return [c.name for c in printer.columns], printer.cells(obj, 0.0)[:-1]


def test_kubectl_shows_the_state_of_a_claim_and_where_a_slice_is() -> None:
    assert _row(o.claim("c")) == (["Name", "State", "Age"], ["c", "pending"])
    held = o.claim("c", status={"allocation": o.allocation("n", "g"), "reservedFor": [{}]})
    assert _row(held)[1] == ["c", "allocated,reserved"]
    assert _row(o.slice_of("n", []))[1] == ["n-gpu.nvidia.com", "n", "gpu.nvidia.com", "n"]


def test_an_allocation_is_written_through_the_status_and_against_a_version() -> None:
    store = _store()
    made = store.create(R.RESOURCE_CLAIM, o.claim("c"))
    given = {**made, "status": {"allocation": o.allocation("n", "gpu-0")}}
    updated = store.update(R.RESOURCE_CLAIM, {**given, "metadata": made["metadata"]})
    assert not updated.get("status")
    made = store.get(R.RESOURCE_CLAIM, "c", "default")
    given["metadata"] = made["metadata"]
    store.update(R.RESOURCE_CLAIM, given, subresource="status")
    with pytest.raises(Conflict):
        store.update(R.RESOURCE_CLAIM, given, subresource="status")


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (o.claim("c", {"devices": {"requests": [{"name": ""}]}}), "spec.devices.requests[0].name"),
        (o.claim("c", {"devices": {"requests": "x"}}), "spec.devices.requests"),
        (o.slice_of("n", [], driver=""), "spec.driver"),
        (o.slice_of("n", [{}]), "spec.devices[0].name"),
    ],
)  # fmt: skip
def test_what_an_api_server_would_refuse(obj, field: str) -> None:
    store = _store()
    with pytest.raises(Invalid) as refused:
        store.create(R.BY_KIND[obj["apiVersion"], obj["kind"]], obj)
    assert field in [c["field"] for c in refused.value.details["causes"]]


def test_the_spec_of_a_claim_never_changes() -> None:
    store = _store()
    made = store.create(R.RESOURCE_CLAIM, o.claim("c"))
    with pytest.raises(Invalid):
        store.update(R.RESOURCE_CLAIM, {**made, "spec": o.spec(o.exactly(count=2))})

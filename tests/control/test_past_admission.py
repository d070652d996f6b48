"""What makes no sense and got past admission: it starts nothing or does no harm, and is named.

As where the webhook was down, or the objects are older than it. Others start at once all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from . import objects

RACK, ZONE = "rack", "zone"
_LEVELS = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
_ZERO = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


class Unchecked:
    """A cluster that takes whatever it is given."""

    def __init__(self) -> None:
        pool = {"name": "n", "count": 2, "gpus": 8, "gpuMemory": "80Gi"}
        self.embedded = EmbeddedCluster(
            ClusterConfig.of({"nodePools": [pool], "seed": 1}), VirtualClock()
        )
        self.store = self.embedded.store
        self.store.create(
            kinds.TOPOLOGY, {"metadata": {"name": "cloud"}, "spec": {"levels": _LEVELS}}
        )

    def make(self, resource: Any, obj: dict[str, Any]) -> None:
        plugins, self.store.admission = self.store.admission, []
        try:
            self.store.create(resource, obj)
        finally:
            self.store.admission = plugins

    def gang(self, name: str, queue: str = "default-queue", gpus: int = 1, **more: Any) -> None:
        notes = more.pop("notes", {})
        self.make(kinds.POD_GROUP, objects.podgroup(name, queue, 1, **more))
        pod = objects.pod(f"{name}-0", name, gpus=gpus)
        pod["metadata"]["annotations"] |= notes
        self.make(kinds.POD, pod)

    def placed(self, name: str) -> bool:
        return bool(self.store.get(kinds.POD, f"{name}-0", "default")["spec"].get("nodeName"))

    def said(self, name: str) -> str:
        group = self.store.get(kinds.POD_GROUP, name, "default")
        conditions = (group.get("status") or {}).get("conditions") or []
        pod = self.store.get(kinds.POD, f"{name}-0", "default")
        conditions = [*conditions, *((pod.get("status") or {}).get("conditions") or [])]
        return " ".join(f"{c.get('reason')}: {c.get('message')}" for c in conditions)


@pytest.fixture
def cluster() -> Iterator[Unchecked]:
    made = Unchecked()
    yield made
    made.embedded.stop()


def sharing(**notes: str) -> Callable[[Unchecked], None]:
    stated = {key.replace("_", "-"): value for key, value in notes.items()}
    gpus = 1 if notes.pop("whole", "") else 0
    stated.pop("whole", None)
    return lambda c: c.gang("bad", gpus=gpus, notes=stated)


def bound(**constraint: str) -> Callable[[Unchecked], None]:
    return lambda c: c.gang("bad", topologyConstraint=constraint)


def queued(queue: dict[str, Any]) -> Callable[[Unchecked], None]:
    """The schema refuses some of these too: it is as if the server had KAI's own."""

    def make(c: Unchecked) -> None:
        c.embedded.control.encoder.apply(kinds.QUEUE, None, queue)
        c.gang("bad", "q")

    return make


#: What is put in, and a word of what is said about it.
BAD: dict[str, tuple[Callable[[Unchecked], None], str]] = {
    "a fraction of 0": (sharing(gpu_fraction="0"), "gpu-fraction"),
    "a fraction of 1.5": (sharing(gpu_fraction="1.5"), "gpu-fraction"),
    "a fraction of NaN": (sharing(gpu_fraction="NaN"), "gpu-fraction"),
    "a fraction with whole GPUs": (sharing(gpu_fraction="0.5", whole="1"), "gpu-fraction"),
    "memory above the card": (sharing(gpu_memory="9000000"), "GpuTooSmall"),
    "a level that the Topology does not have": (
        bound(topology="cloud", requiredTopologyLevel="block"),
        "TopologyLevelNotFound",
    ),
    "a level that no node has": (
        bound(topology="cloud", requiredTopologyLevel=RACK),
        "no node belongs to one",
    ),
    "a Topology that is not there": (
        bound(topology="gone", requiredTopologyLevel=RACK),
        "TopologyNotFound",
    ),
    "a required level without a Topology": (
        bound(requiredTopologyLevel=RACK),
        "spec.topologyConstraint.topology",
    ),
    "a minimum runtime of -1s": (
        queued(objects.queue("q", gpu=_ZERO, preemptMinRuntime="-1s")),
        "spec.preemptMinRuntime",
    ),
    "a reserve that is none": (
        queued(
            objects.queue("q", gpu=_ZERO)
            | {"metadata": {"name": "q", "annotations": {L.RESERVED_GPUS: "4x0"}}}
        ),
        "reserved-gpus",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_it_starts_nothing_is_named_and_holds_nobody_up(cluster: Unchecked, case: str) -> None:
    make, word = BAD[case]
    make(cluster)
    cluster.gang("good", gpus=8)
    assert cluster.embedded.run_until(lambda: cluster.placed("good"), 3)
    cluster.embedded.run_for(10)
    assert not cluster.placed("bad")
    assert word in cluster.said("bad"), cluster.said("bad")
    cluster.gang("later", gpus=8)
    assert cluster.embedded.run_until(lambda: cluster.placed("later"), 3)


def test_a_limit_below_the_quota_is_a_limit(cluster: Unchecked) -> None:
    """It means something: the lower of the two bounds what the queue has."""
    gpu = {"quota": 8, "limit": 2, "overQuotaWeight": 1}
    cluster.embedded.control.encoder.apply(kinds.QUEUE, None, objects.queue("q", gpu=gpu))
    for i in range(4):
        cluster.gang(f"bad-{i}", "q")
    cluster.gang("good", gpus=8)
    cluster.embedded.run_for(10)
    assert cluster.placed("good")
    assert sum(cluster.placed(f"bad-{i}") for i in range(4)) == 2
    assert "limit of 2 GPUs" in " ".join(cluster.said(f"bad-{i}") for i in range(4))


def test_a_required_level_below_the_preferred_one_is_kept_and_the_wish_is_void(
    cluster: Unchecked,
) -> None:
    for i, rack in enumerate("ab"):
        labels = {"metadata": {"labels": {ZONE: "z", RACK: rack}}}
        cluster.store.patch(kinds.NODE, f"n-{i}", labels)
    upside_down = {
        "topology": "cloud",
        "requiredTopologyLevel": RACK,
        "preferredTopologyLevel": ZONE,
    }
    cluster.gang("bad", topologyConstraint=upside_down)
    cluster.gang("good", gpus=8)
    cluster.embedded.run_for(10)
    assert cluster.placed("good")
    assert cluster.placed("bad")

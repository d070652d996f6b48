"""The cluster of the example queues, in virtual time: a minute of it takes milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kai_ray
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sdk.client import Client
from kai_ray.sdk.pace import EmbeddedPace
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def embedded(clock: VirtualClock | None = None) -> EmbeddedCluster:
    """4 nodes of 8 GPUs in two racks, as in examples/cluster.yaml."""
    return EmbeddedCluster(ClusterConfig.load(EXAMPLES / "cluster.yaml"), clock)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with embedded(VirtualClock()) as made:
        kai_ray.connect(made).submit_all(EXAMPLES / "queues.yaml")
        yield made


class Patience(EmbeddedPace):
    """Virtual time that ends, so that a wait in vain fails its test."""

    looks = 3000

    def sleep(self, seconds: float) -> None:
        self.looks -= 1
        assert self.looks, "this has been waited for in vain"
        super().sleep(seconds)


@pytest.fixture
def kai(cluster: EmbeddedCluster) -> Client:
    return Client(cluster.client, "default", Patience(cluster), "this test")

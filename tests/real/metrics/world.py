"""A cluster in real time that a real Prometheus watches, while a job is reclaimed for another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from kai_ray.cli import up
from kai_ray.cluster import resources as r
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.real.metrics.prometheus import Prometheus

EXAMPLES = Path(__file__).parents[3] / "examples"
RECLAIM = EXAMPLES / "rules" / "reclaim"


@dataclass
class World:
    """`url` is what Prometheus scrapes."""

    cluster: EmbeddedCluster
    url: str
    prometheus: Prometheus

    def submit(self, file: Path) -> None:
        """Creates what stands in a file."""
        for document in yaml.safe_load_all(file.read_text()):
            resource = r.BY_KIND[document["apiVersion"], document["kind"]]
            if resource.namespaced:
                document["metadata"].setdefault("namespace", "default")
                annotations = document["metadata"].setdefault("annotations", {})
                annotations["kai.scheduler/sim-run-time"] = "1h"  # nothing ends meanwhile
            self.cluster.client.create(resource, document)


@contextmanager
def watched(folder: Path, nodes: str = "4x8") -> Iterator[World]:
    cluster = EmbeddedCluster(ClusterConfig.short(nodes))
    with cluster, up.measured(cluster) as url:
        cluster.start()
        address = url.removeprefix("http://").removesuffix("/metrics")
        with Prometheus(folder, address) as prometheus:
            yield World(cluster, url, prometheus)

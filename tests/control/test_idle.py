"""A whole cluster at rest: no cycle, no write, whoever runs and whoever waits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from . import objects

_CONTAINER = {
    "name": "ray",
    "image": "ray",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
}


def _ray_cluster(workers: int) -> dict:
    template = {"spec": {"containers": [_CONTAINER]}}
    group = {
        "groupName": "w",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": template,
    }
    return {
        "metadata": {"name": f"ray-{workers}", "namespace": "default"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [group],
        },
    }


def test_a_cluster_at_rest_writes_nothing() -> None:
    with EmbeddedCluster(ClusterConfig.short("2x8"), VirtualClock()) as cluster:
        cluster.store.create(kinds.RAY_CLUSTER, _ray_cluster(5))
        cluster.store.create(kinds.RAY_CLUSTER, _ray_cluster(20))
        cluster.run_for(120)
        placed = [p for p in cluster.store.list(kinds.POD).items if p["spec"].get("nodeName")]
        assert len(placed) == 6
        version, cycles = cluster.store.version, cluster.control.loop.cycles
        cluster.run_for(3600)
        assert cluster.store.version == version
        assert cluster.control.loop.cycles == cycles


_PICTURE = """
from tests.control.test_idle import picture
print(picture())
"""


def picture() -> str:
    """A digest of the arrays of a cluster whose pods refer to each other in many ways."""
    from kai_ray.encode import Encoder

    from .test_encode_incremental import picture as _picture

    encoder = Encoder()
    for i in range(9):
        labels = {"app": f"a{i % 3}", "rev": str(i)}
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{i % 3}"}}}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        node = objects.node(f"n{i}", labels={"zone": f"z{i % 2}", **labels})
        pod = objects.pod(f"p{i}", f"g{i % 2}", labels=labels, affinity={"podAntiAffinity": rule})
        for resource, obj in (
            (kinds.NODE, node),
            (kinds.POD, pod),
            (kinds.POD_GROUP, objects.podgroup(f"g{i}")),
            (kinds.QUEUE, objects.queue(f"q{i}", f"q{i // 2}" if i else "")),
        ):
            encoder.apply(resource, None, obj)
    return hashlib.sha256(repr(_picture(encoder.snapshot(0.0))).encode()).hexdigest()


def test_arrays_do_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    seen = set()
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", _PICTURE],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(ran.stdout)
    assert seen == {picture() + "\n"}

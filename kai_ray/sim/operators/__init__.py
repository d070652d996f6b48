"""Stand-ins for the operators of a real cluster: they make the objects those operators make."""

from __future__ import annotations

from kai_ray.cluster.runtime import Controller
from kai_ray.sim.cluster_file import ClusterConfig

from .job import JobOperator
from .raycluster import RayClusterOperator
from .rayjob import RayJobOperator


def build(config: ClusterConfig) -> list[Controller]:
    """One of each kind."""
    ray = config.ray_batch_scheduler
    run_time = config.node_pools[0].run_time.model()
    return [
        JobOperator(),
        RayClusterOperator(ray),
        RayJobOperator(run_time, config.seed),
    ]

"""Stand-ins for the operators of a real cluster: they make the objects those operators make."""

from __future__ import annotations

from kai_ray.cluster.runtime import Controller
from kai_ray.sim.cluster_file import ClusterConfig

from .claims import ClaimBinder
from .cronjob import CronJobOperator, RayCronJobOperator
from .daemonset import DaemonSetOperator
from .deployment import DeploymentOperator
from .jax import JAX
from .job import JobOperator
from .jobset import JobSetOperator
from .mpi import MpiOperator
from .paddle import PADDLE
from .pytorch import PYTORCH
from .raycluster import RayClusterOperator
from .rayjob import RayJobOperator
from .rayservice import RayServiceOperator
from .replicaset import ReplicaSetOperator
from .statefulset import StatefulSetOperator
from .tensorflow import TENSORFLOW
from .training import TrainingOperator
from .trainjob import TrainJobOperator
from .xgboost import XGBOOST


def build(config: ClusterConfig) -> list[Controller]:
    """One of each kind."""
    ray = config.ray_batch_scheduler
    run_time = config.node_pools[0].run_time.model()
    return [
        JobOperator(),
        RayClusterOperator(ray),
        RayJobOperator(run_time, config.seed),
        RayServiceOperator(),
        RayCronJobOperator(),
        *(TrainingOperator(f) for f in (PYTORCH, TENSORFLOW, XGBOOST, PADDLE, JAX)),
        MpiOperator(),
        JobSetOperator(),
        TrainJobOperator(),
        CronJobOperator(),
        DeploymentOperator(),
        ReplicaSetOperator(),
        StatefulSetOperator(),
        DaemonSetOperator(),
        ClaimBinder(),
    ]

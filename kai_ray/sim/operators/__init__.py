"""Stand-ins for the operators of a real cluster: they make the objects those operators make."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Resource
from kai_ray.cluster.runtime import Controller
from kai_ray.sim.cluster_file import ClusterConfig

from .claims import ClaimBinder
from .cronjob import CronJobOperator, RayCronJobOperator
from .daemonset import DaemonSetOperator
from .deployment import DeploymentOperator
from .guarded import Guarded, Warn
from .jax import JAX
from .job import JobOperator
from .jobset import JobSetOperator
from .leaderworkerset import LeaderWorkerSetOperator
from .mpi import MpiOperator
from .paddle import PADDLE
from .pytorch import PYTORCH
from .raycluster import RayClusterOperator
from .rayjob import RayJobOperator
from .rayservice import RayServiceOperator
from .replicaset import ReplicaSetOperator
from .resource_claims import ResourceClaimOperator
from .statefulset import StatefulSetOperator
from .tensorflow import TENSORFLOW
from .training import TrainingOperator
from .trainjob import TrainJobOperator
from .xgboost import XGBOOST


def build(config: ClusterConfig, warn: Warn) -> list[Guarded]:
    """One of each kind. `warn` tells users of specs that cannot be read."""
    run_time = config.node_pools[0].run_time.model()
    kinds: list[tuple[Controller, Resource]] = [
        (JobOperator(), R.JOB),
        (RayClusterOperator(config.ray_batch_scheduler), R.RAY_CLUSTER),
        (RayJobOperator(run_time, config.seed), R.RAY_JOB),
        (RayServiceOperator(), R.RAY_SERVICE),
        (RayCronJobOperator(), R.RAY_CRON_JOB),
        *((TrainingOperator(f), f.resource) for f in (PYTORCH, TENSORFLOW, XGBOOST, PADDLE, JAX)),
        (MpiOperator(), R.MPI_JOB),
        (JobSetOperator(), R.JOB_SET),
        (TrainJobOperator(), R.TRAIN_JOB),
        (LeaderWorkerSetOperator(), R.LEADER_WORKER_SET),
        (CronJobOperator(), R.CRON_JOB),
        (DeploymentOperator(), R.DEPLOYMENT),
        (ReplicaSetOperator(), R.REPLICA_SET),
        (StatefulSetOperator(), R.STATEFUL_SET),
        (DaemonSetOperator(), R.DAEMON_SET),
        (ClaimBinder(), R.PVC),
        (ResourceClaimOperator(), R.RESOURCE_CLAIM),
    ]
    return [Guarded(operator, resource, warn) for operator, resource in kinds]

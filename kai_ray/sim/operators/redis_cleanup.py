"""KubeRay's clean-up of Redis: a finalizer on the RayCluster and a Job that runs before it goes."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.api import operator_defaults as defaults
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_names as names
from . import ray_start
from . import raycluster_pods as pods_of
from .podset import add_env
from .world import World, own_copy, owner_ref

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
#: After this long the finalizer is dropped whatever the Job says.
GIVE_UP_S = 300.0
_CLEAN = 'python -c "from ray._private.gcs_utils import cleanup_redis_storage"'


class RedisCleanup:
    def needed(self, cluster: Object) -> bool:
        """Only Redis is cleaned; a cluster that keeps its state on a volume is not."""
        options = cluster["spec"].get("gcsFaultToleranceOptions") or {}
        return options.get("backend", "redis") == "redis"

    def add_finalizer(self, world: World, cluster: Object) -> bool:
        known = cluster["metadata"].get("finalizers") or []
        if FINALIZER in known:
            return False
        fresh = own_copy(cluster)
        fresh["metadata"]["finalizers"] = [*known, FINALIZER]
        world.update(R.RAY_CLUSTER, fresh)
        return True

    def finalize(self, world: World, cluster: Object) -> float | None:
        """One step of the clean-up of a cluster that is being deleted."""
        if FINALIZER not in (cluster["metadata"].get("finalizers") or ()):
            return None
        pods = world.owned(R.POD, cluster)
        for pod in pods:
            world.delete(R.POD, pod)
        waited = world.age_s(cluster["metadata"]["deletionTimestamp"])
        if waited < GIVE_UP_S:
            if any(_is_head(p) for p in pods):
                return None
            jobs = world.owned(R.JOB, cluster)
            if not jobs:
                world.create(R.JOB, self._job(cluster))
                return GIVE_UP_S - waited
            if not _is_finished(jobs[0]):
                return GIVE_UP_S - waited
        fresh = own_copy(cluster)
        fresh["metadata"]["finalizers"].remove(FINALIZER)
        world.update(R.RAY_CLUSTER, fresh)
        return None

    def _job(self, cluster: Object) -> Object:
        pod = own_copy(pods_of.head_pod(cluster))
        main = pod["spec"]["containers"][0]
        for probe in ("livenessProbe", "readinessProbe"):
            main.pop(probe, None)
        main["command"] = list(ray_start.SHELL)
        main["args"] = [_CLEAN]
        main["resources"] = own_copy(defaults.RAY_REDIS_CLEANUP_RESOURCES)
        add_env(
            main,
            ("RAY_redis_db_connect_retries", "120"),
            ("RAY_redis_db_connect_wait_milliseconds", "500"),
        )
        pod["spec"]["containers"] = [main]
        pod["spec"]["restartPolicy"] = "Never"
        labels = {**pod["metadata"]["labels"], L.RAY_NODE_TYPE: "redis-cleanup"}
        annotations = pod["metadata"].get("annotations") or {}
        name = names.label_value(f"{cluster['metadata']['name']}-redis-cleanup")
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": cluster["metadata"]["namespace"],
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
            },
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": 300,
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": pod["spec"],
                },
            },
        }


def _is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(L.RAY_NODE_TYPE) == "head"


def _is_finished(job: Object) -> bool:
    return any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True"
        for c in (job.get("status") or {}).get("conditions") or ()
    )

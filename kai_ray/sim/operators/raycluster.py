"""Stand-in for KubeRay's RayCluster controller: services, head, workers, scaling, suspension."""

from __future__ import annotations

import secrets
from collections import defaultdict

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from . import ray_names as names
from . import raycluster_pods as pods_of
from . import raycluster_services as services
from .ray_groups import desired_replicas, hosts_of
from .raycluster_status import cluster_status
from .redis_cleanup import RedisCleanup
from .world import BURST, World, is_deleting, own_copy, owner_ref, split_key, suffix

#: What the autoscaler beside the head may do: look at pods, change its cluster.
_AUTOSCALER_RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/resize"],
        "verbs": ["get", "list", "watch", "patch"],
    },
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]


class RayClusterOperator:
    """`batch_scheduler`: as KubeRay's flag of that name (scheduler name and queue on the pods)."""

    name = "raycluster"

    def __init__(self, batch_scheduler: str = "") -> None:
        self._batch_scheduler = batch_scheduler
        self._redis = RedisCleanup()

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.RAY_CLUSTER)
        for resource in (R.POD, R.SERVICE, R.JOB):
            self._world.watch_owned(self.name, resource, R.RAY_CLUSTER)

    def reconcile(self, key: str) -> float | None:
        cluster = self._world.get(R.RAY_CLUSTER, *split_key(key))
        if cluster is None:
            return None
        redis = names.is_fault_tolerant(cluster) and self._redis.needed(cluster)
        if is_deleting(cluster):
            return self._redis.finalize(self._world, cluster) if redis else None
        if redis and self._redis.add_finalizer(self._world, cluster):
            return None
        self._ensure_services(cluster)
        pods = self._world.owned(R.POD, cluster)
        changed = self._reconcile_pods(cluster, pods)
        if changed:
            pods = self._world.owned(R.POD, cluster)
        status = cluster_status(self._world, cluster, pods)
        self._world.set_status(R.RAY_CLUSTER, cluster, status)
        return None

    def _ensure_services(self, cluster: Object) -> None:
        spec, meta = cluster["spec"], cluster["metadata"]
        if names.autoscales(spec):
            account = names.shorten(
                spec["headGroupSpec"]["template"]["spec"].get("serviceAccountName") or meta["name"]
            )
            self._own(R.SERVICE_ACCOUNT, cluster, account, {})
            name = names.shorten(meta["name"])
            self._own(R.ROLE, cluster, name, {"rules": _AUTOSCALER_RULES})
            self._own(R.ROLE_BINDING, cluster, name, _binding(name, account, meta["namespace"]))
        auth = spec.get("authOptions") or {}
        if auth.get("mode") == "token" and not (
            auth.get("enableK8sTokenAuth") or auth.get("secretName")
        ):
            name = names.shorten(meta["name"])
            if self._world.get(R.SECRET, meta["namespace"], name) is None:
                token = secrets.token_urlsafe(24)
                self._own(R.SECRET, cluster, name, {"stringData": {"auth_token": token}})
        self._world.ensure(R.SERVICE, services.head_service(cluster))
        if any(hosts_of(g) > 1 for g in spec.get("workerGroupSpecs") or ()):
            self._world.ensure(R.SERVICE, services.headless_worker_service(cluster))

    def _own(self, resource, cluster: Object, name: str, body: Object) -> None:
        meta = {
            "name": name,
            "namespace": cluster["metadata"]["namespace"],
            "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
        }
        made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}
        self._world.ensure(resource, made)

    # ------------------------------------------------------------------ pods

    def _reconcile_pods(self, cluster: Object, pods: list[Object]) -> bool:
        """Creates and deletes pods; True if anything changed."""
        if cluster["spec"].get("suspend"):
            for pod in pods:
                self._world.delete(R.POD, pod)
            return bool(pods)
        heads = [p for p in pods if _role(p) == "head"]
        if heads and _is_outdated(cluster, heads[0]):
            return self._delete_all(pods)
        changed = self._reconcile_head(cluster, heads)
        by_group: dict[str, list[Object]] = defaultdict(list)
        for pod in pods:
            if _role(pod) == "worker":
                by_group[pod["metadata"]["labels"].get(L.RAY_GROUP, "")].append(pod)
        for group in cluster["spec"].get("workerGroupSpecs") or ():
            workers = by_group.pop(group["groupName"], [])
            if group.get("suspend"):
                changed |= self._delete_all(workers)
            elif hosts_of(group) > 1:
                changed |= self._reconcile_multi_host(cluster, group, workers)
            else:
                changed |= self._reconcile_workers(cluster, group, workers)
        return changed

    def _reconcile_head(self, cluster: Object, heads: list[Object]) -> bool:
        if heads:
            return self._delete_all([p for p in heads if _is_dead(p)])
        annotations = cluster["metadata"].get("annotations") or {}
        provisioned = any(
            c["type"] == "RayClusterProvisioned" and c["status"] == "True"
            for c in (cluster.get("status") or {}).get("conditions") or ()
        )
        if provisioned and annotations.get(names.NO_HEAD_RESTART) == "true":
            return False
        self._world.create(R.POD, pods_of.head_pod(cluster, self._batch_scheduler))
        return True

    def _delete_all(self, pods: list[Object]) -> bool:
        alive = [p for p in pods if not is_deleting(p)]
        for pod in alive:
            self._world.delete(R.POD, pod)
        return bool(alive)

    def _reconcile_workers(self, cluster: Object, group: Object, workers: list[Object]) -> bool:
        named = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        gone = [p for p in workers if _is_dead(p) or p["metadata"]["name"] in named]
        changed = self._delete_all(gone)
        left = [p for p in workers if p not in gone]
        missing = desired_replicas(group) - len(left)
        if missing > 0 and not any(_is_dead(p) for p in gone):
            template = pods_of.worker_template(cluster, group)
            for index in _free_indices(left, min(missing, BURST)):
                self._create_worker(cluster, group, template, index)
            return True
        if missing < 0 and not names.autoscales(cluster["spec"]):
            changed |= self._delete_all(_expendable(left)[:-missing])
        return changed

    def _reconcile_multi_host(self, cluster: Object, group: Object, workers: list[Object]) -> bool:
        hosts = hosts_of(group)
        named = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        replicas: dict[str, list[Object]] = defaultdict(list)
        for pod in workers:
            replicas[pod["metadata"]["labels"].get(L.RAY_REPLICA_NAME, "")].append(pod)
        changed, whole = False, []
        for members in replicas.values():
            broken = len(members) < hosts or any(
                _is_dead(p) or is_deleting(p) or p["metadata"]["name"] in named for p in members
            )
            if broken:
                # A replica is one unit: it goes as a whole.
                changed |= self._delete_all(members)
            else:
                whole.append(members)
        missing = desired_replicas(group) - len(whole)
        if missing > 0:
            template = pods_of.worker_template(cluster, group)
            firsts = [members[0] for members in whole]
            for index in _free_indices(firsts, min(missing, max(1, BURST // hosts))):
                made = suffix(cluster["metadata"]["uid"], group["groupName"], index, len(workers))
                name = f"{group['groupName']}-{made}"
                for host in range(hosts):
                    self._create_worker(cluster, group, template, index, name, host)
            return True
        if missing < 0 and not names.autoscales(cluster["spec"]):
            for members in whole[missing:]:
                changed |= self._delete_all(members)
        return changed

    def _create_worker(
        self,
        cluster: Object,
        group: Object,
        template: Object,
        index: int,
        replica: str = "",
        host: int = 0,
    ) -> None:
        pod = pods_of.worker_pod(
            cluster,
            group,
            template,
            index,
            replica=replica,
            host=host,
            batch_scheduler=self._batch_scheduler,
        )
        self._world.create(R.POD, pod)


def _binding(role: str, account: str, namespace: str) -> Object:
    return {
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
    }


def suspend_workers(world: World, cluster: Object) -> None:
    """Sets `suspend` on every worker group, as RayJob's DeleteWorkers policy does."""
    fresh = own_copy(cluster)
    for group in fresh["spec"].get("workerGroupSpecs") or ():
        group["suspend"] = True
    try:
        world.update(R.RAY_CLUSTER, fresh)
    except NotFound:
        return


def _is_outdated(cluster: Object, head: Object) -> bool:
    """Whether the upgrade strategy Recreate has to replace all pods: the spec has changed."""
    strategy = (cluster["spec"].get("upgradeStrategy") or {}).get("type")
    made_of = (head["metadata"].get("annotations") or {}).get(names.RECREATE_HASH)
    return strategy == "Recreate" and made_of != names.spec_hash(cluster["spec"])


def _role(pod: Object) -> str:
    return (pod["metadata"].get("labels") or {}).get(L.RAY_NODE_TYPE, "")


def _is_dead(pod: Object) -> bool:
    """Finished, or its Ray container has ended and may not restart."""
    if pod_facts.is_finished(pod):
        return True
    main = pod["spec"]["containers"][0]["name"]
    ended = "terminated" in pod_facts.container_state(pod, main)
    return ended and pod["spec"].get("restartPolicy") == "Never"


def _free_indices(pods: list[Object], count: int) -> list[int]:
    taken = {
        int(text)
        for p in pods
        if (text := p["metadata"]["labels"].get(L.RAY_REPLICA_INDEX, "")).isdigit()
    }
    found: list[int] = []
    index = 0
    while len(found) < count:
        if index not in taken:
            found.append(index)
        index += 1
    return found


def _expendable(pods: list[Object]) -> list[Object]:
    """Pods to remove first when a group shrinks: pending ones, then the newest."""
    return sorted(pods, key=lambda p: pod_facts.phase(p) == "Running")

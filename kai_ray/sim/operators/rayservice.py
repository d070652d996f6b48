"""Stand-in for KubeRay's RayService controller: an active cluster, a pending one to upgrade to."""

from __future__ import annotations

import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim import pod_facts

from . import ray_names as names
from . import raycluster_services as services
from .ray_start import KUBERAY_VERSION
from .world import World, is_deleting, own_copy, owner_ref, split_key, suffix

HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
GROUPS = "ray.io/num-worker-groups"
#: How long an old cluster stays after traffic has moved.
DELETE_AFTER_S = 60.0


class RayServiceOperator:
    name = "rayservice"

    def __init__(self) -> None:
        #: When each cluster stopped being needed.
        self._unused: dict[str, float] = {}

    def setup(self, runtime: Runtime) -> None:
        self._world = World(runtime)
        self._world.watch(self.name, R.RAY_SERVICE)
        for resource in (R.RAY_CLUSTER, R.SERVICE):
            self._world.watch_owned(self.name, resource, R.RAY_SERVICE)

    def reconcile(self, key: str) -> float | None:
        service = self._world.get(R.RAY_SERVICE, *split_key(key))
        if service is None or is_deleting(service):
            return None
        status = own_copy(service.get("status") or {})
        status["observedGeneration"] = service["metadata"].get("generation", 1)
        if service["spec"].get("suspend"):
            self._suspend(service, status)
            self._world.set_status(R.RAY_SERVICE, service, status)
            return None
        self._prepare(service, status)
        active = self._cluster(service, status.get("activeServiceStatus"))
        pending = self._cluster(service, status.get("pendingServiceStatus"))
        active, pending = self._promote(service, status, active, pending)
        for cluster, slot in ((active, "activeServiceStatus"), (pending, "pendingServiceStatus")):
            if cluster is not None:
                self._describe(service, status[slot], cluster)
        ready = active is not None and self._serves(active)
        if active is not None and ready:
            self._point_services(service, active)
        self._conditions(status, active, pending, ready)
        self._world.set_status(R.RAY_SERVICE, service, status)
        return self._clean(service, status)

    # ------------------------------------------------------------------ clusters

    def _prepare(self, service: Object, status: Object) -> None:
        """Names a new pending cluster where none fits the spec."""
        wanted = names.spec_hash(service["spec"]["rayClusterConfig"])
        current = (status.get("pendingServiceStatus") or {}).get("rayClusterName") or (
            status.get("activeServiceStatus") or {}
        ).get("rayClusterName")
        if current:
            cluster = self._world.get(R.RAY_CLUSTER, service["metadata"]["namespace"], current)
            if cluster is None:
                return
            if (cluster["metadata"].get("annotations") or {}).get(HASH) == wanted:
                return
            upgrade = (service["spec"].get("upgradeStrategy") or {}).get("type", "NewCluster")
            if upgrade == "None":
                return
        meta = service["metadata"]
        name = f"{meta['name']}-{suffix(meta['uid'], wanted, meta.get('generation', 1))}"
        status["pendingServiceStatus"] = {"rayClusterName": name}

    def _cluster(self, service: Object, slot: Object | None) -> Object | None:
        name = (slot or {}).get("rayClusterName")
        if not name:
            return None
        cluster = self._world.get(R.RAY_CLUSTER, service["metadata"]["namespace"], name)
        if cluster is None:
            return self._world.create(R.RAY_CLUSTER, self._new_cluster(service, name))
        self._take_scale(service, cluster)
        return cluster

    def _new_cluster(self, service: Object, name: str) -> Object:
        meta = service["metadata"]
        spec = own_copy(service["spec"]["rayClusterConfig"])
        own = dict(meta.get("annotations") or {})
        own.pop("kubectl.kubernetes.io/last-applied-configuration", None)
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {
                    **(meta.get("labels") or {}),
                    names.ORIGIN_NAME: meta["name"],
                    names.ORIGIN_KIND: "RayService",
                },
                "annotations": {
                    **own,
                    HASH: names.spec_hash(spec),
                    GROUPS: str(len(spec.get("workerGroupSpecs") or ())),
                    names.OPERATOR_VERSION: KUBERAY_VERSION,
                },
                "ownerReferences": [owner_ref(R.RAY_SERVICE, service)],
            },
            "spec": spec,
        }

    def _take_scale(self, service: Object, cluster: Object) -> None:
        """A change of replicas alone goes to the running cluster: no upgrade."""
        wanted = service["spec"]["rayClusterConfig"]
        if (cluster["metadata"].get("annotations") or {}).get(HASH) != names.spec_hash(wanted):
            return
        if names.autoscales(cluster["spec"]):
            return
        fresh = own_copy(cluster)
        changed = False
        ours = {g["groupName"]: g for g in wanted.get("workerGroupSpecs") or ()}
        for group in fresh["spec"].get("workerGroupSpecs") or ():
            for field in ("replicas", "minReplicas", "maxReplicas"):
                value = ours.get(group["groupName"], {}).get(field)
                if value is not None and group.get(field) != value:
                    group[field] = value
                    changed = True
        if changed:
            self._world.update(R.RAY_CLUSTER, fresh)

    def _serves(self, cluster: Object) -> bool:
        """The head is ready, and the cluster has been ready once."""
        head = next((p for p in self._world.owned(R.POD, cluster) if _is_head(p)), None)
        state = (cluster.get("status") or {}).get("state")
        return state == "ready" and head is not None and pod_facts.is_ready(head)

    def _promote(
        self, service: Object, status: Object, active: Object | None, pending: Object | None
    ) -> tuple[Object | None, Object | None]:
        if pending is None or not self._serves(pending):
            return active, pending
        status["activeServiceStatus"] = status.pop("pendingServiceStatus")
        return pending, None

    def _describe(self, service: Object, slot: Object, cluster: Object) -> None:
        slot["rayClusterStatus"] = cluster.get("status") or {}
        self._mark_head(service, cluster)
        if self._serves(cluster):
            slot["applicationStatuses"] = {
                name: {"status": "RUNNING"} for name in _applications(service)
            }

    # ------------------------------------------------------------------ traffic

    def _mark_head(self, service: Object, cluster: Object) -> None:
        """A head whose proxy answers takes requests too, unless it is kept out of the service."""
        head = next((p for p in self._world.owned(R.POD, cluster) if _is_head(p)), None)
        kept_out = service["spec"].get("excludeHeadPodFromServeSvc")
        serves = "true" if self._serves(cluster) and not kept_out else "false"
        if head is None or head["metadata"]["labels"].get(names.SERVE) == serves:
            return
        meta, change = head["metadata"], {"metadata": {"labels": {names.SERVE: serves}}}
        self._world.port.patch(R.POD, meta["name"], change, meta["namespace"])

    def _point_services(self, service: Object, cluster: Object) -> None:
        """Head and serve services of the RayService select the active cluster."""
        meta = service["metadata"]
        name = cluster["metadata"]["name"]
        head = own_copy(services.head_service(cluster))
        head["metadata"] = {
            "name": f"{meta['name']}-head-svc",
            "namespace": meta["namespace"],
            "labels": {
                names.ORIGIN_NAME: meta["name"],
                names.ORIGIN_KIND: "RayService",
                L.RAY_NODE_TYPE: "head",
                names.IDENTIFIER: names.label_value(f"{meta['name']}-head"),
            },
            "ownerReferences": [owner_ref(R.RAY_SERVICE, service)],
        }
        self._point(head)
        ports = [
            {"name": n, "port": p}
            for n, p in sorted(services.service_ports(cluster).items())
            if n == "serve" or n.startswith("serve-")
        ]
        serve = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": f"{meta['name']}-serve-svc",
                "namespace": meta["namespace"],
                "labels": {
                    names.ORIGIN_NAME: meta["name"],
                    names.ORIGIN_KIND: "RayService",
                    names.SERVE: f"{meta['name']}-serve",
                },
                "ownerReferences": [owner_ref(R.RAY_SERVICE, service)],
            },
            "spec": {
                "selector": {L.RAY_CLUSTER: name, names.SERVE: "true"},
                "ports": ports or [{"name": "serve", "port": 8000}],
            },
        }
        self._point(serve)

    def _point(self, wanted: Object) -> None:
        meta = wanted["metadata"]
        old = self._world.get(R.SERVICE, meta["namespace"], meta["name"])
        if old is None:
            self._world.create(R.SERVICE, wanted)
        elif old["spec"].get("selector") != wanted["spec"]["selector"]:
            fresh = own_copy(old)
            fresh["spec"]["selector"] = wanted["spec"]["selector"]
            self._world.update(R.SERVICE, fresh)

    def _conditions(
        self, status: Object, active: Object | None, pending: Object | None, ready: bool
    ) -> None:
        conditions = status.setdefault("conditions", [])

        def put(kind: str, true: bool, reason: str, message: str) -> None:
            self._world.set_condition(
                conditions, kind, "True" if true else "False", reason, message
            )

        was_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        if ready:
            put(
                "Ready",
                True,
                "NonZeroServeEndpoints",
                "Number of serve endpoints is greater than 0",
            )
        elif was_ready:
            put("Ready", False, "ZeroServeEndpoints", "Number of serve endpoints dropped to 0")
        elif not any(c["type"] == "Ready" for c in conditions):
            put("Ready", False, "Initializing", "RayService is initializing")
        if active is not None and pending is not None:
            text = "Both active and pending Ray clusters exist"
            put("UpgradeInProgress", True, "BothActivePendingClustersExist", text)
        elif active is not None:
            text = "Active Ray cluster exists and no pending Ray cluster"
            put("UpgradeInProgress", False, "NoPendingCluster", text)
        else:
            put("UpgradeInProgress", False, "Initializing", "RayService is initializing")
        status["serviceStatus"] = "Running" if ready else ""
        endpoints = 0
        if active is not None and ready:
            endpoints = sum(pod_facts.is_ready(p) for p in self._world.owned(R.POD, active))
        status["numServeEndpoints"] = endpoints

    def _clean(self, service: Object, status: Object) -> float | None:
        """Deletes clusters that carry no traffic any more, after a delay."""
        kept = {
            (status.get(slot) or {}).get("rayClusterName")
            for slot in ("activeServiceStatus", "pendingServiceStatus")
        }
        delay = service["spec"].get("rayClusterDeletionDelaySeconds")
        delay = DELETE_AFTER_S if delay is None else delay
        waits: list[float] = []
        for cluster in self._world.owned(R.RAY_CLUSTER, service):
            uid = cluster["metadata"]["uid"]
            if cluster["metadata"]["name"] in kept:
                self._unused.pop(uid, None)
                continue
            since = self._unused.setdefault(uid, self._world.now())
            left = since + delay - self._world.now()
            if left > 0:
                waits.append(left)
            else:
                self._world.delete(R.RAY_CLUSTER, cluster)
        return min(waits) if waits else None

    def _suspend(self, service: Object, status: Object) -> None:
        clusters = self._world.owned(R.RAY_CLUSTER, service)
        for cluster in clusters:
            self._world.delete(R.RAY_CLUSTER, cluster)
        for slot in ("activeServiceStatus", "pendingServiceStatus"):
            status.pop(slot, None)
        conditions = status.setdefault("conditions", [])
        done = not clusters
        self._world.set_condition(
            conditions,
            "Suspended",
            "True" if done else "False",
            "Suspended" if done else "Suspending",
        )
        self._world.set_condition(
            conditions, "Ready", "False", "Suspended", "RayService is suspended"
        )
        status["serviceStatus"], status["numServeEndpoints"] = "", 0


def _is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(L.RAY_NODE_TYPE) == "head"


def _applications(service: Object) -> list[str]:
    try:
        config = yaml.safe_load(service["spec"].get("serveConfigV2") or "") or {}
    except yaml.YAMLError:
        return []
    found = config.get("applications") if isinstance(config, dict) else None
    return [a.get("name", "default") for a in found or () if isinstance(a, dict)]

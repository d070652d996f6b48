"""What a sample takes for granted: nodes, namespaces, queues, secrets, runtimes, clusters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import AlreadyExists, Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

#: Node labels that samples' topologies name.
TOPOLOGY_LABELS = {
    "topology.test/rack-domain": "rack-0",
    "topology.test/zone-domain": "zone-0",
    "accelerator.nvidia.com/rack": "rack-0",
}
#: NVIDIA's driver makes claim templates for the ComputeDomains of users, and offers channels.
COMPUTE_DOMAIN = "ComputeDomain"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
CHANNELS = {
    "driver": "compute-domain.nvidia.com",
    "deviceClass": CHANNEL_CLASS,
    "count": 1,
    "prefix": "channel",
}
_CLUSTER_SCOPED = {"Queue", "Namespace", "ClusterRole", "ClusterRoleBinding", "Topology"}


def documents(path: Path) -> list[Object]:
    """The documents of a file, with its placeholders ($KSA_NAME) filled in."""
    text = path.read_text().replace("$KSA_NAME", "default")
    return [d for d in yaml.safe_load_all(text) if d]


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every map inside."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def large_cluster(docs: list[Object]) -> ClusterConfig:
    """Ample GPU nodes, and for each node selector nodes that have those labels and resources."""
    pools: list[Object] = [
        {
            "name": "gpu",
            "count": 16,
            "gpus": 8,
            "cpu": 256,
            "labels": TOPOLOGY_LABELS,
            "runTime": {"meanSeconds": 30},
            **({"devices": [CHANNELS]} if any(d["kind"] == COMPUTE_DOMAIN for d in docs) else {}),
        }
    ]
    seen: list[dict[str, str]] = []
    for found in walk(docs):
        selector = found.get("nodeSelector")
        if not isinstance(selector, dict) or selector in seen:
            continue
        seen.append(selector)
        resources: dict[str, int] = {}
        for container in found.get("containers") or ():
            for amounts in ((container.get("resources") or {}).get("limits") or {},):
                for name, value in amounts.items():
                    if "/" in name and name != L.NVIDIA_GPU:
                        resources[name] = max(int(value), resources.get(name, 0))
        pools.append(
            {
                "name": f"selected-{len(seen)}",
                "count": 70,
                "gpus": 8,
                "cpu": 256,
                "labels": {k: str(v) for k, v in selector.items()},
                "resources": resources,
            }
        )
    return ClusterConfig.of({"nodePools": pools})


def supply(cluster: EmbeddedCluster, docs: list[Object], manifests: Path) -> None:
    """Creates what the documents refer to and do not bring."""
    own = {(d["kind"], d["metadata"].get("name", "")) for d in docs}
    for namespace in {d["metadata"].get("namespace") for d in docs} - {None, "default"}:
        labels = {L.MANAGED_NAMESPACE: "true"}
        _create(cluster, R.NAMESPACE, {"metadata": {"name": namespace, "labels": labels}})
    # Non-preemptible samples need a queue with quota; the shipped one has none, as KAI's.
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    for name in (L.DEFAULT_PARENT_QUEUE, L.DEFAULT_QUEUE):
        every = {"gpu": share, "cpu": share, "memory": share}
        cluster.client.patch(R.QUEUE, name, {"spec": {"resources": every}})
    for doc in docs:
        for found in walk(doc):
            queue = (found.get("labels") or {}).get(L.QUEUE) if "labels" in found else None
            if queue and ("Queue", queue) not in own:
                every = {"gpu": share, "cpu": share, "memory": share}
                spec = {"parentQueue": L.DEFAULT_PARENT_QUEUE, "resources": every}
                _create(cluster, R.QUEUE, {"metadata": {"name": queue}, "spec": spec})
        namespace = doc["metadata"].get("namespace", "default")
        _supply_references(cluster, doc, namespace, own)
        _supply_runtime(cluster, doc, own, manifests)
        _supply_cluster(cluster, doc, namespace, manifests)
        _supply_channel(cluster, doc, namespace)


def _supply_references(
    cluster: EmbeddedCluster, doc: Object, namespace: str, own: set[tuple[str, str]]
) -> None:
    for found in walk(doc):
        secret = (found.get("secretKeyRef") or {}).get("name") or (found.get("secret") or {}).get(
            "secretName"
        )
        if secret and ("Secret", secret) not in own:
            meta = {"name": secret, "namespace": namespace}
            _create(cluster, R.SECRET, {"metadata": meta, "stringData": {"key": "value"}})
        claim = (found.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and ("PersistentVolumeClaim", claim) not in own:
            meta = {"name": claim, "namespace": namespace}
            spec = {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            _create(cluster, R.PVC, {"metadata": meta, "spec": spec})


def _supply_runtime(
    cluster: EmbeddedCluster, doc: Object, own: set[tuple[str, str]], manifests: Path
) -> None:
    if doc["kind"] != "TrainJob":
        return
    name = doc["spec"]["runtimeRef"]["name"]
    if any(kind.endswith("TrainingRuntime") and n == name for kind, n in own):
        return
    for path in manifests.glob("trainer/*runtimes*.yaml"):
        for runtime in documents(path):
            if runtime["metadata"]["name"] == name:
                _create(cluster, R.CLUSTER_TRAINING_RUNTIME, runtime)
                return
    _create(cluster, R.CLUSTER_TRAINING_RUNTIME, flux_runtime(name))


def flux_runtime(name: str) -> Object:
    """The one runtime that the samples use and do not hold."""
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    containers = [{"name": "node", "image": "flux"}]
    group = {
        "name": "node",
        "template": {
            "metadata": {"labels": step},
            "spec": {"template": {"spec": {"containers": containers}}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "flux": {}},
            "template": {"spec": {"replicatedJobs": [group]}},
        },
    }


def _supply_cluster(cluster: EmbeddedCluster, doc: Object, namespace: str, manifests: Path) -> None:
    name = (doc.get("spec") or {}).get("clusterSelector", {}).get(L.RAY_CLUSTER)
    if doc["kind"] != "RayJob" or not name:
        return
    sample = next(
        d
        for d in documents(manifests / "kuberay/ray-cluster.sample.yaml")
        if d["kind"] == "RayCluster"
    )
    sample = copy.deepcopy(sample)
    sample["metadata"].update(name=name, namespace=namespace)
    _create(cluster, R.RAY_CLUSTER, sample)


def _supply_channel(cluster: EmbeddedCluster, doc: Object, namespace: str) -> None:
    """What NVIDIA's driver does for a ComputeDomain: a template for claims of its channel."""
    if doc["kind"] != COMPUTE_DOMAIN:
        return
    name = doc["spec"]["channel"]["resourceClaimTemplate"]["name"]
    request = {"name": "channel", "exactly": {"deviceClassName": CHANNEL_CLASS}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    meta = {"name": name, "namespace": namespace}
    _create(cluster, R.RESOURCE_CLAIM_TEMPLATE, {"metadata": meta, "spec": spec})


def submit(cluster: EmbeddedCluster, docs: list[Object]) -> list[Object]:
    """Applies documents in order; kinds that the cluster does not know are left out."""
    made: list[Object] = []
    for doc in docs:
        resource = R.BY_KIND.get((doc["apiVersion"], doc["kind"]))
        if resource is None:
            continue
        doc = copy.deepcopy(doc)
        if resource.namespaced:
            doc["metadata"].setdefault("namespace", "default")
        made.append(_create(cluster, resource, doc))
    return made


def _create(cluster: EmbeddedCluster, resource, obj: Object) -> Object:
    try:
        return cluster.client.create(resource, obj)
    except AlreadyExists:
        meta = obj["metadata"]
        return cluster.client.get(resource, meta["name"], meta.get("namespace", ""))

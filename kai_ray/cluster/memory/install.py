"""What a fresh embedded cluster holds: namespaces, CRDs, priority classes, queues."""

from __future__ import annotations

from kai_ray.api import labels
from kai_ray.api.crd import crds, workload_crds
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import AlreadyExists, Object, Port, Resource

_PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def install_defaults(port: Port, *, managed: bool = True) -> None:
    """Adds what is missing; objects that exist are left as they are.

    `managed` labels the namespace `default` so that pods there are scheduled by us.
    """
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        mark = {labels.MANAGED_NAMESPACE: "true"} if managed and name == "default" else {}
        _add(port, r.NAMESPACE, {"metadata": {"name": name, "labels": mark}})
    for manifest in (*crds(), *workload_crds()):
        _add(port, r.CRD, manifest)
    for name, value in _PRIORITIES.items():
        _add(port, r.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    every = {"gpu": share, "cpu": share, "memory": share}
    _add(
        port,
        r.QUEUE,
        {"metadata": {"name": labels.DEFAULT_PARENT_QUEUE}, "spec": {"resources": every}},
    )
    _add(
        port,
        r.QUEUE,
        {
            "metadata": {"name": labels.DEFAULT_QUEUE},
            "spec": {"parentQueue": labels.DEFAULT_PARENT_QUEUE, "resources": every},
        },
    )


def _add(port: Port, resource: Resource, obj: Object) -> None:
    try:
        port.create(resource, obj)
    except AlreadyExists:
        return

"""What a fresh embedded cluster holds: namespaces, CRDs, priority classes, queues."""

from __future__ import annotations

from kai_ray.api import labels
from kai_ray.api.crd import crds, workload_crds
from kai_ray.cluster import resources as r
from kai_ray.cluster.defaults import add, install_queues
from kai_ray.cluster.port import Port


def install_defaults(port: Port, *, managed: bool = True) -> None:
    """Adds what is missing; objects that exist are left as they are.

    `managed` labels the namespace `default` so that pods there are scheduled by us.
    """
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        mark = {labels.MANAGED_NAMESPACE: "true"} if managed and name == "default" else {}
        add(port, r.NAMESPACE, {"metadata": {"name": name, "labels": mark}})
    for manifest in (*crds(), *workload_crds()):
        add(port, r.CRD, manifest)
    install_queues(port)

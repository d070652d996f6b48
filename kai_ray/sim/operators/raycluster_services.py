"""The services of a RayCluster: of its head, and between the hosts of its workers."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_start
from .ray_names import IDENTIFIER, label_value, service_name
from .world import own_copy, owner_ref


def service_ports(cluster: Object) -> dict[str, int]:
    """Named ports of the head container, or the defaults; metrics always."""
    main = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    ports = {
        p.get("name") or f"{p['containerPort']}-port": p["containerPort"]
        for p in main.get("ports") or ()
    }
    if not ports:
        ports = {
            "client": 10001,
            "gcs-server": 6379,
            "dashboard": ray_start.DASHBOARD_PORT,
            "serve": ray_start.SERVE_PORT,
        }
    ports.setdefault("metrics", ray_start.METRICS_PORT)
    return ports


def head_service(cluster: Object) -> Object:
    meta, head = cluster["metadata"], cluster["spec"]["headGroupSpec"]
    own = (head["template"].get("metadata") or {}).get("labels") or {}
    selector = {
        L.RAY_CLUSTER: meta["name"],
        L.RAY_NODE_TYPE: "head",
        IDENTIFIER: label_value(f"{meta['name']}-head"),
        "app.kubernetes.io/name": own.get("app.kubernetes.io/name", "kuberay"),
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    ports = [
        {"name": n, "port": p, "targetPort": p, "protocol": "TCP", "appProtocol": "tcp"}
        for n, p in sorted(service_ports(cluster).items())
    ]
    given = own_copy(head.get("headService") or {})
    given_meta, given_spec = given.get("metadata") or {}, given.get("spec") or {}
    kind = given_spec.get("type") or head.get("serviceType") or "ClusterIP"
    spec: Object = {
        **given_spec,
        "selector": selector,
        "ports": [*(given_spec.get("ports") or ()), *ports],
        "type": kind,
    }
    if kind == "ClusterIP" and not head.get("headService"):
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    annotations = {
        **(given_meta.get("annotations") or {}),
        **(cluster["spec"].get("headServiceAnnotations") or {}),
    }
    new_meta: Object = {
        "name": service_name(cluster),
        "namespace": meta["namespace"],
        "labels": {**(given_meta.get("labels") or {}), **selector},
        "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
    }
    if annotations:
        new_meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Service", "metadata": new_meta, "spec": spec}


def headless_worker_service(cluster: Object) -> Object:
    """Lets the hosts of multi-host replicas find each other."""
    meta = cluster["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"{meta['name']}-headless",
            "namespace": meta["namespace"],
            "labels": {"ray.io/headless-worker-svc": meta["name"]},
            "ownerReferences": [owner_ref(R.RAY_CLUSTER, cluster)],
        },
        "spec": {
            "clusterIP": "None",
            "type": "ClusterIP",
            "publishNotReadyAddresses": True,
            "selector": {L.RAY_CLUSTER: meta["name"], L.RAY_NODE_TYPE: "worker"},
        },
    }

"""Everything that an API server keeps: what an installation leaves shows in the difference."""

from __future__ import annotations

from collections.abc import Iterator

from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import ApiError, Object, Resource

#: What comes and goes by itself, or with the definition of a kind.
_PASSING = {"events", "leases", "endpointslices", "endpoints", "apiservices"}


def everything(port: KubePort) -> set[str]:
    """Names of all objects, as "kind namespace/name"."""
    found: set[str] = set()
    for resource in _served(port):
        try:
            items = port.list(resource).items
        except ApiError:  # a kind that cannot be listed
            continue
        for obj in items:
            meta = obj["metadata"]
            where = f"{meta['namespace']}/" if meta.get("namespace") else ""
            found.add(f"{resource.kind} {where}{meta['name']}")
    return found


def lease_names(port: KubePort, namespace: str) -> list[str]:
    lease = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    return [found["metadata"]["name"] for found in port.list(lease, namespace).items]


def _served(port: KubePort) -> Iterator[Resource]:
    versions = [("", "v1", "/api/v1")]
    for group in port.raw("GET", "/apis")["groups"]:
        name, version = group["name"], group["preferredVersion"]["version"]
        versions.append((name, version, f"/apis/{name}/{version}"))
    for group, version, path in versions:
        for served in port.raw("GET", path)["resources"]:
            if _listed(served):
                yield Resource(group, version, served["name"], served["kind"], served["namespaced"])


def _listed(served: Object) -> bool:
    return "list" in served["verbs"] and served["name"] not in _PASSING

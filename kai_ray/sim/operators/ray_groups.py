"""How many pods a Ray worker group wants."""

from __future__ import annotations

from kai_ray.cluster.port import Object


def hosts_of(group: Object) -> int:
    return max(1, group.get("numOfHosts") or 1)


def desired_replicas(group: Object) -> int:
    """Replicas within their bounds; 0 for a suspended group."""
    if group.get("suspend"):
        return 0
    low = group.get("minReplicas") or 0
    high = group.get("maxReplicas")
    wanted = group.get("replicas")
    wanted = low if wanted is None or wanted < low else wanted
    return wanted if high is None else min(wanted, high)

"""Which printer each kind has."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory.kinds import Served
from kai_ray.cluster.port import Resource

from . import custom, devices, objects, pods, workloads
from .column import Printer

_BUILT_IN: dict[Resource, Printer] = {
    r.POD: pods.POD,
    r.NODE: pods.NODE,
    r.JOB: workloads.JOB,
    r.CRON_JOB: workloads.CRON_JOB,
    r.DEPLOYMENT: workloads.DEPLOYMENT,
    r.REPLICA_SET: workloads.REPLICAS,
    r.REPLICATION_CONTROLLER: workloads.REPLICAS,
    r.STATEFUL_SET: workloads.STATEFUL_SET,
    r.DAEMON_SET: workloads.DAEMON_SET,
    r.CONTROLLER_REVISION: workloads.CONTROLLER_REVISION,
    r.NAMESPACE: objects.NAMESPACE,
    r.EVENT: objects.EVENT,
    r.CONFIG_MAP: objects.CONFIG_MAP,
    r.SECRET: objects.SECRET,
    r.SERVICE: objects.SERVICE,
    r.SERVICE_ACCOUNT: objects.SERVICE_ACCOUNT,
    r.ENDPOINTS: objects.ENDPOINTS,
    r.ENDPOINT_SLICE: objects.ENDPOINT_SLICE,
    r.PVC: objects.PVC,
    r.PV: objects.PV,
    r.STORAGE_CLASS: objects.STORAGE_CLASS,
    r.PRIORITY_CLASS: objects.PRIORITY_CLASS,
    r.LEASE: objects.LEASE,
    r.PDB: objects.PDB,
    r.ROLE_BINDING: objects.BINDING,
    r.CLUSTER_ROLE_BINDING: objects.BINDING,
    r.RESOURCE_QUOTA: objects.RESOURCE_QUOTA,
    r.NETWORK_POLICY: objects.NETWORK_POLICY,
    r.INGRESS: objects.INGRESS,
    r.RESOURCE_CLAIM: devices.CLAIM,
    r.RESOURCE_CLAIM_TEMPLATE: devices.PLAIN,
    r.RESOURCE_SLICE: devices.SLICE,
    r.DEVICE_CLASS: devices.PLAIN,
}


def printer_of(served: Served) -> Printer:
    if served.builtin:
        return _BUILT_IN.get(served.resource, objects.CREATED)
    return _custom(msgspec.json.encode(served.columns))


@lru_cache(maxsize=256)
def _custom(columns: bytes) -> Printer:
    return custom.printer(tuple(msgspec.json.decode(columns)))

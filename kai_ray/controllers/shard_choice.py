"""Which shard serves a workload, asked of any API server: its node pool and its policy."""

from __future__ import annotations

import dataclasses

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.pages import listed
from kai_ray.cluster.port import ApiError, NotFound, Object, Port, key_of
from kai_ray.controllers.owners import controller, top_owner
from kai_ray.encode import EncodeConfig
from kai_ray.encode.problems import Malformed
from kai_ray.encode.shard_spec import read
from kai_ray.scheduler import Policy


def shard_of(
    port: Port,
    kind: str,
    name: str,
    namespace: str,
    config: EncodeConfig | None,
    policy: Policy,
) -> tuple[EncodeConfig | None, Policy]:
    """`config` and `policy` as they are where no SchedulingShard says otherwise."""
    shards = listed(port, kinds.SCHEDULING_SHARD, unless=ApiError)
    if not shards:
        return config, policy
    base = config or EncodeConfig()
    pool = _pool(port, kind, name, namespace, base)
    for shard in shards:
        try:
            settings = read(shard)
        except Malformed:
            continue
        if settings.pool == pool:
            policy = settings.policy
    return dataclasses.replace(base, node_pool=pool), policy


def _pool(port: Port, kind: str, name: str, namespace: str, config: EncodeConfig) -> str:
    group = name if kind.lower() == "podgroup" else ""
    if kind.lower() == "pod":
        try:
            pod = port.get(kinds.POD, name, namespace)
        except NotFound:
            return ""
        group = (pod["metadata"].get("annotations") or {}).get(names.POD_GROUP) or ""
    for found in listed(port, kinds.POD_GROUP, unless=ApiError):
        key = key_of(found)
        if key.namespace == namespace and (
            key.name == group if group else _owned(found, kind, name)
        ):
            return (found["metadata"].get("labels") or {}).get(config.node_pool_key) or ""
    return ""


def _owned(group: Object, kind: str, name: str) -> bool:
    return any(
        owner is not None
        and owner.key.name == name
        and kind.lower() in (owner.resource.kind.lower(), owner.resource.plural)
        for owner in (top_owner(group), controller(group))
    )

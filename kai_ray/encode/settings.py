"""What the encoder has to be told about the installation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kai_ray.api import labels
from kai_ray.cluster.port import Object


class Membership(NamedTuple):
    """The gang of a pod and the subgroup inside it ("" = the gang has none)."""

    group: str
    subgroup: str


#: Says where a pod belongs that carries no group annotation; None while nobody knows.
MemberOf = Callable[[Object], Membership | tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class EncodeConfig:
    """Which objects are ours, and which part of the cluster."""

    scheduler_names: tuple[str, ...] = (labels.SCHEDULER_NAME,)
    node_pool_key: str = labels.NODE_POOL
    node_pool: str = ""  # "" = nodes, queues and podgroups without that label
    stuck_after_s: float = 120.0  # a running pod overdue in deletion for so long frees nothing
    default_priority: int = 50  # of a PodGroup without priority class (KAI)
    non_preemptible_from: int = 100  # priority from which a PodGroup is not preemptible by default
    max_subgroups: int = 10_000
    reservation_namespace: str = labels.RESERVATION  # of the pods that keep shared cards
    seed: int = 0


def in_shard(obj: Object, config: EncodeConfig) -> bool:
    """Whether a node, queue or PodGroup belongs to this scheduler's node pool."""
    labels_ = obj["metadata"].get("labels")
    value = labels_.get(config.node_pool_key) if isinstance(labels_, dict) else None
    return value == config.node_pool if config.node_pool else value is None


def spoken_name(raw: object) -> str:
    """A name as a symbol key: text, or "" for what is no text."""
    return raw if isinstance(raw, str) else ""

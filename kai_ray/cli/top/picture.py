"""What is shown: queues, jobs and nodes as they were at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Port
from kai_ray.gpu import node_use
from kai_ray.gpu.use import STALE_S
from kai_ray.sight import node_list, queue_list
from kai_ray.sight.jobs import listing
from kai_ray.sight.jobs.listing import Job
from kai_ray.sight.node_list import Node
from kai_ray.sight.queue_list import Queue

WAITING = ("Waiting", "Evicted")


@dataclass(frozen=True)
class Picture:
    """`use`: node -> mean use of its GPUs, 0 to 1, where an agent tells it."""

    at_s: float
    queues: tuple[Queue, ...] = ()
    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    use: Mapping[str, float] = field(default_factory=dict)

    @property
    def waiting(self) -> Counter[str]:
        """Queue -> jobs of its own that wait."""
        return Counter(job.queue for job in self.jobs if job.status in WAITING)

    def below(self, queue: str) -> set[str]:
        """A queue and those below it."""
        found = {queue}
        for row in self.queues:  # parents come first
            if row.parent in found:
                found.add(row.name)
        return found


def read(port: Port, namespace: str | None, now_s: float) -> Picture:
    """Raises ApiError. `namespace` None: jobs of all."""
    return Picture(
        now_s,
        tuple(queue_list.read(port)),
        tuple(job for job in listing.read(port, namespace) if job.status not in listing.ENDED),
        tuple(node_list.read(port)),
        _use(port, now_s),
    )


def _use(port: Port, now_s: float) -> dict[str, float]:
    """Nodes whose agent is silent, and clusters without agents, are left out."""
    try:
        states = [node_use.read(obj) for obj in port.list(R.GPU_NODE_STATE).items]
    except ApiError:
        return {}
    found: dict[str, float] = {}
    for state in states:
        known = [d.utilization for d in state.devices if d.utilization is not None]
        if known and state.observed_s > now_s - STALE_S:
            found[state.name] = sum(known) / len(known)
    return found

"""What is shown: queues, jobs and nodes as they were at one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Object, Port
from kai_ray.gpu.use import GpuUse, PodUse, total
from kai_ray.sight import claimed, node_list, queue_list
from kai_ray.sight.jobs import listing
from kai_ray.sight.jobs import pods as P
from kai_ray.sight.jobs.listing import Job
from kai_ray.sight.node_list import Node
from kai_ray.sight.queue_list import Queue

WAITING = ("Waiting", "Evicted")


@dataclass(frozen=True)
class Picture:
    """`node_use`: how well a node's GPUs are used, 0 to 1, where an agent tells it; `gang_use`: by
    (namespace, gang)."""

    at_s: float
    queues: tuple[Queue, ...] = ()
    jobs: tuple[Job, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_use: Mapping[str, float] = field(default_factory=dict)
    gang_use: Mapping[tuple[str, str], PodUse] = field(default_factory=dict)

    def use_of(self, job: Job) -> float | None:
        """Of all GPUs that a job holds; None where it is not known of each."""
        known = (self.gang_use.get((job.namespace, gang.name)) for gang in job.gangs)
        return total(use for use in known if use is not None).utilization

    @property
    def waiting(self) -> Counter[str]:
        """Queue -> jobs that wait, with those of queues below."""
        found = Counter(job.queue for job in self.jobs if job.status in WAITING)
        for queue in reversed(self.queues):  # children come after their parents
            found[queue.parent] += found[queue.name]
        return found

    def below(self, queue: str) -> set[str]:
        """A queue and those below it."""
        found = {queue}
        for row in self.queues:  # parents come first
            if row.parent in found:
                found.add(row.name)
        return found


def read(port: Port, namespace: str | None, now_s: float) -> Picture:
    """Raises ApiError. `namespace` None: jobs of all."""
    pods = port.list(R.POD).items
    nodes = node_list.build(port.list(R.NODE).items, pods, claimed.read(port))
    use = _use(port)
    return Picture(
        now_s,
        tuple(queue_list.read(port)),
        tuple(job for job in listing.read(port, namespace) if job.status not in listing.ENDED),
        tuple(nodes),
        dict(_of_nodes(use, now_s)),
        _of_gangs(use, pods, now_s),
    )


def _use(port: Port) -> GpuUse:
    """A cluster without agents tells nothing."""
    try:
        return GpuUse.of(port.list(R.GPU_NODE_STATE).items)
    except ApiError:
        return GpuUse()


def _of_nodes(use: GpuUse, now_s: float) -> Iterator[tuple[str, float]]:
    for name, node in use.nodes.items():
        known = [d.utilization for d in node.devices if d.utilization is not None]
        if known and not use.stale(name, now_s):
            yield name, sum(known) / len(known)


def _of_gangs(use: GpuUse, pods: list[Object], now_s: float) -> dict[tuple[str, str], PodUse]:
    if not use.nodes:
        return {}
    members: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for pod in pods:
        name = P.gang_name(pod)
        if name and (pod.get("status") or {}).get("phase") == "Running":
            members[pod["metadata"]["namespace"], name].append(pod)
    return {gang: use.of_pods(found, now_s) for gang, found in members.items()}

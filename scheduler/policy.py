"""What the scheduler believes in, as tuples of plain functions.

Adding a rule is a file and a line here. Another policy is another `Policy`, handed to `decide`:
`dataclasses.replace(DEFAULT, scores=(*DEFAULT.scores, Score(mine, 50.0)))`.

Weights follow KAI 0.17: nominated node 10,000,000; one point of pod affinity 1,000,000; room now
1,000; a shared device with room 10,000; a CPU node for a CPU pod 10; packing up to 9. In between
stand preferences that KAI lacks, see scores/preferences.py. Ties go to the first node by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .actions.allocate import allocate
from .actions.consolidation import consolidation
from .actions.preempt import preempt
from .actions.reclaim import reclaim
from .actions.stale_gang import stale_gang
from .filters.blocked import unblocked
from .filters.claims import claims_open, claims_reachable
from .filters.gpu_kind import large_enough, memory_known, partitioned_alike, shareable
from .filters.labels import selected
from .filters.pod_affinity import apart, avoids_itself, near
from .filters.ports import holds_port, ports_free
from .filters.queue_nodes import not_reserved, queue_may_use
from .filters.readiness import ready, uncordoned
from .filters.taints import tolerated
from .filters.topology_spread import spread
from .filters.zones import devices_matched, links_joined, numa_aligned
from .gpu.order import DeviceOrder, packed, spread_out
from .orders.job_order import JobKey, job_key
from .orders.queue_order import Standing, standing
from .orders.task_order import task_order
from .reason import Reason
from .rules import Filter, Reads, Score
from .scores.availability import fits_now
from .scores.gpu_sharing import hosts_share
from .scores.layout import laid_out
from .scores.packing import cpu_binpack, cpu_spread, gpu_binpack, gpu_spread
from .scores.pod_affinity import liked_company
from .scores.preferences import (
    NODE_AFFINITY_WEIGHT,
    SOFT_SPREAD_WEIGHT,
    SOFT_TAINTS_WEIGHT,
    no_soft_taints,
    preferred_nodes,
    soft_spread,
)
from .scores.resource_type import cpu_node_for_cpu_pod
from .scores.zones import link_span, numa_span
from .session import Session
from .shares.fair_share import fair_share
from .shares.row import Amounts, QueueRow
from .snapshot import Codes, Floats, Layout, Queues, Tasks
from .victims import knobs
from .victims.knobs import Evicting


class Placement(Enum):
    """How pods are laid out over nodes that suit equally."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Policy:
    """All that can be believed differently. Resources are not: no policy overcommits a node."""

    filters: tuple[Filter, ...]
    """In the order in which a refusal is explained; room for the request comes after them."""
    scores: tuple[Score, ...]
    actions: tuple[Callable[[Session], None], ...] = (allocate, reclaim, preempt, stale_gang)
    queue_order: Callable[[QueueRow, Amounts, Amounts, Amounts], Standing] = standing
    job_order: Callable[[int, int, float, int], JobKey] = job_key
    task_order: Callable[[Tasks, Codes], Codes] = task_order
    share: Callable[[Queues, Floats, Floats, float], Floats] = fair_share
    k_value: float = 1.0  # how strongly past usage moves over-quota shares
    user_fairness: bool = True
    """Among equals of a queue, users who had less lately go first (where the usage is known)."""
    nominated_weight: float = 10_000_000.0  # the node named by a pod's nominatedNodeName
    evicting: Evicting = knobs.DEFAULT
    depths: tuple[tuple[Callable[[Session], None], int], ...] = ()
    """(action, gangs): of each leaf queue an action tries only so many, the best ones."""
    device_order: DeviceOrder = packed
    """Which device of the node a pod that shares one takes."""
    mig_by_share: bool = False
    """Queues are charged the part of a card that a MIG profile is, not one GPU per slice."""

    def depth_of(self, action: Callable[[Session], None]) -> int | None:
        """How many gangs of a leaf queue an action tries; None = all."""
        return next((depth for known, depth in self.depths if known is action), None)

    def devices_for(self, layout: Layout) -> DeviceOrder:
        """The device order of a class: its queue's layout, else the policy's."""
        if layout is Layout.POLICY:
            return self.device_order
        return spread_out if layout is Layout.SPREAD else packed


FILTERS = (
    Filter(unblocked, Reason.MISCONFIGURED),
    Filter(ready, Reason.NODE_NOT_READY),
    Filter(uncordoned, Reason.NODE_CORDONED),
    Filter(selected, Reason.NODE_SELECTOR_MISMATCH),
    Filter(queue_may_use, Reason.QUEUE_NODE_POOL_MISMATCH),
    Filter(not_reserved, Reason.RESERVED_FOR_OTHERS),
    Filter(tolerated, Reason.UNTOLERATED_TAINT),
    Filter(partitioned_alike, Reason.MIG_MISMATCH),
    Filter(shareable, Reason.GPU_NOT_SHAREABLE),
    Filter(memory_known, Reason.GPU_MEMORY_UNKNOWN),
    Filter(large_enough, Reason.GPU_TOO_SMALL),
    Filter(ports_free, Reason.HOST_PORT_IN_USE, Reads.ROOM, single=holds_port),
    Filter(claims_open, Reason.CLAIM_FULL, Reads.PEERS),
    Filter(claims_reachable, Reason.CLAIM_ELSEWHERE, Reads.PEERS),
    Filter(near, Reason.POD_AFFINITY_UNSATISFIED, Reads.PEERS),
    Filter(apart, Reason.POD_ANTI_AFFINITY_CONFLICT, Reads.PEERS, single=avoids_itself),
    Filter(spread, Reason.TOPOLOGY_SPREAD_UNSATISFIED, Reads.PEERS),
    Filter(numa_aligned, Reason.NUMA_UNALIGNED, Reads.ROOM),
    Filter(links_joined, Reason.GPUS_NOT_LINKED, Reads.ROOM),
    Filter(devices_matched, Reason.DEVICES_UNMATCHED, Reads.ROOM),
)


def scores(gpu: Placement | None, cpu: Placement | None) -> tuple[Score, ...]:
    """The default scores with a layout for pods with GPUs and for the others; None = neither.

    A queue may say otherwise for its own pods (ClassRules.layout).
    """
    layout: list[Score] = []
    for wanted, binpack, spread_ in (
        (gpu, gpu_binpack, gpu_spread),
        (cpu, cpu_binpack, cpu_spread),
    ):
        packed_ = laid_out(binpack, Layout.BINPACK, wanted is Placement.BINPACK)
        layout.append(Score(packed_, 9.0, Reads.ROOM, packs=True))
        apart_ = laid_out(spread_, Layout.SPREAD, wanted is Placement.SPREAD)
        layout.append(Score(apart_, 1.0, Reads.ROOM))
    return (
        Score(liked_company, 1_000_000.0, Reads.PEERS),
        Score(hosts_share, 10_000.0, Reads.ROOM),
        Score(fits_now, 1_000.0, Reads.ROOM, packs=True),
        Score(numa_span, 100.0, Reads.ROOM),
        Score(link_span, 100.0, Reads.ROOM),
        Score(preferred_nodes, NODE_AFFINITY_WEIGHT),
        Score(no_soft_taints, SOFT_TAINTS_WEIGHT),
        Score(soft_spread, SOFT_SPREAD_WEIGHT, Reads.PEERS),
        Score(cpu_node_for_cpu_pod, 10.0),
        *layout,
    )


def policy(
    gpu: Placement | None = Placement.BINPACK,
    cpu: Placement | None = Placement.BINPACK,
    k_value: float = 1.0,
) -> Policy:
    """The default policy with its knobs. Gangs are moved together only where pods are packed."""
    packs = (consolidation,) if gpu is Placement.BINPACK else ()
    return Policy(
        actions=(allocate, *packs, reclaim, preempt, stale_gang),
        filters=FILTERS,
        scores=scores(gpu, cpu),
        k_value=k_value,
        device_order=spread_out if gpu is Placement.SPREAD else packed,
    )


DEFAULT = policy()

"""What users read: one word and one sentence for every reason."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.encode import Encoded
from kai_ray.scheduler.plan import QueueCause, Wait
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY

_NAMES = {CPU: "CPU", MEMORY: "memory", GPU: "GPU"}

#: What a node does to a pod, as "3 nodes ...".
_ON_NODES = {
    Reason.INSUFFICIENT_GPU: "too few free GPUs",
    Reason.INSUFFICIENT_CPU: "too little free CPU",
    Reason.INSUFFICIENT_MEMORY: "too little free memory",
    Reason.INSUFFICIENT_RESOURCE: "too little of another resource",
    Reason.NO_POD_SLOT: "no pod slot free",
    Reason.NODE_NOT_READY: "not ready",
    Reason.NODE_CORDONED: "cordoned",
    Reason.NODE_SELECTOR_MISMATCH: "not selected by the pod's node selector or affinity",
    Reason.UNTOLERATED_TAINT: "tainted and not tolerated",
    Reason.HOST_PORT_IN_USE: "host port in use",
    Reason.POD_AFFINITY_UNSATISFIED: "not near the pods asked for",
    Reason.POD_ANTI_AFFINITY_CONFLICT: "too near pods to keep away from",
    Reason.TOPOLOGY_SPREAD_UNSATISFIED: "against the topology spread",
    Reason.VOLUME_NODE_CONFLICT: "out of reach of a volume",
}


def word(reason: Reason) -> str:
    """The CamelCase form shown in conditions, events and tables: InsufficientGpu."""
    return "".join(part.capitalize() for part in reason.name.split("_"))


def sentence(wait: Wait, encoded: Encoded) -> str:
    """Why a gang waits, in one sentence with its figures and the mend where there is one."""
    reason = wait.reason
    if reason in (Reason.OVER_LIMIT, Reason.NON_PREEMPTIBLE_OVER_QUOTA) and wait.queue_cause:
        return _queue_bound(wait.queue_cause, encoded)
    queue = _queue_name(wait.gang, encoded)
    plain = {
        Reason.QUEUE_NOT_FOUND: f"queue {queue} does not exist: create it or name another queue",
        Reason.QUEUE_NOT_A_LEAF: f"queue {queue} has child queues: name one of them",
        Reason.QUEUE_PAUSED: f"queue {queue} is paused, or one above it: `kai queue resume` it",
        Reason.VOLUME_CLAIM_NOT_FOUND: f"volume claim {wait.detail} does not exist or is not ready",
        Reason.VOLUME_NODE_CONFLICT: f"volumes allow no node{_after(wait.detail)}",
        Reason.CONFIG_MAP_NOT_FOUND: f"ConfigMap {wait.detail} does not exist: create it",
        Reason.MISCONFIGURED: wait.detail or "the workload cannot be read",
        Reason.POD_GATED: f"{_pods(wait.wanted)} held back by scheduling gates",
        Reason.GANG_INCOMPLETE: f"{_pods(wait.wanted)} there, fewer than the minimum",
        Reason.SUBGROUP_NOT_FOUND: f"subgroup {wait.detail} does not exist in the PodGroup",
        Reason.BACKING_OFF: wait.detail or "binding failed: trying again later",
        Reason.WAITING_FOR_RELEASE: (
            f"room is kept for {_pods(wait.placeable)} until pods that are ending have left"
        ),
    }.get(reason)
    if plain is not None and not (reason is Reason.VOLUME_NODE_CONFLICT and not wait.detail):
        return plain
    return _no_room(wait, encoded)


def node_counts(counts: Sequence[tuple[Reason, int]]) -> str:
    """ "3 nodes: too few free GPUs; 1 node: cordoned"."""
    return "; ".join(
        f"{number} {'node' if number == 1 else 'nodes'}: {_ON_NODES.get(reason, word(reason))}"
        for reason, number in counts
    )


def amount(row: int, value: float, resources: Sequence[str]) -> str:
    """A quantity of a resource row for people: 4 GPU, 1.5 CPU, 12 GiB memory."""
    if row == CPU:
        return f"{value / 1000:g} CPU"
    if row == MEMORY:
        return f"{_binary(value)} memory"
    if row == GPU:
        return f"{value:g} GPU" if value == 1 else f"{value:g} GPUs"
    name = resources[row] if row < len(resources) else f"resource {row}"
    return f"{_binary(value) if name == 'ephemeral-storage' else format(value, 'g')} {name}"


def _no_room(wait: Wait, encoded: Encoded) -> str:
    resources = encoded.snapshot.resources
    parts: list[str] = []
    if wait.reason is Reason.LARGER_THAN_ANY_NODE:
        parts.append("a pod asks for more than any node that suits it has")
    elif wait.wanted:
        parts.append(f"{wait.placeable} of the {_pods(wait.wanted)} needed fit now")
    if wait.asked:
        free = dict(wait.free)
        figures = [
            amount(row, need, resources)
            + (f" (free on suitable nodes: {_short(row, free[row], resources)})" * (row in free))
            for row, need in wait.asked
            if row == GPU or not any(r == GPU for r, _ in wait.asked)
        ]
        if figures:
            parts.append("asks for " + ", ".join(figures))
    if wait.counts:
        parts.append(node_counts(wait.counts))
    if wait.nearest >= 0 and wait.missing:
        lack = " and ".join(amount(row, value, resources) for row, value in wait.missing)
        parts.append(f"nearest is {encoded.names.node(wait.nearest)}, which lacks {lack}")
    if wait.behind:
        names = ", ".join(encoded.names.gang(g).name for g in wait.behind)
        parts.append(f"went first: {names}")
    return "; ".join(parts) or word(wait.reason)


def _queue_bound(cause: QueueCause, encoded: Encoded) -> str:
    resources = encoded.snapshot.resources
    queue = encoded.names.queue(cause.queue)
    ask, used, bound = (
        amount(cause.resource, value, resources)
        for value in (cause.requested, cause.used, cause.bound)
    )
    if cause.reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        return (
            f"a non-preemptible gang has to stay within the quota of queue {queue}: it asks for "
            f"{ask}, {used} of {bound} are taken by others of its kind"
        )
    return f"queue {queue} would pass its limit: {ask} asked for, {used} of {bound} in use"


def _queue_name(gang: int, encoded: Encoded) -> str:
    row = int(encoded.snapshot.gangs.queue[gang]) if gang >= 0 else -1
    return encoded.names.queue(row) if row >= 0 else "named by the PodGroup"


def _short(row: int, value: float, resources: Sequence[str]) -> str:
    return amount(row, value, resources).rsplit(" ", 1)[0] if row in _NAMES else f"{value:g}"


def _pods(number: int) -> str:
    return f"{number} pod" if number == 1 else f"{number} pods"


def _after(detail: str) -> str:
    return f" ({detail})" if detail else ""


def _binary(value: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:g} B"

"""A Wait in words: one headline a user understands, and the facts behind it.

    Waiting for GPUs: 16 needed at once, 9 free; nearest node gpu-3 lacks 2 GPUs
    Waiting for quota: queue a is at its limit of 8 GPUs (8 used, 4 asked)

Nothing is decided here: every figure comes from the Wait, names from the table. All that users read
about waiting is worded here: conditions, events, command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .plan import QueueCause, Wait
from .reason import Reason
from .snapshot import CPU, GPU, MEMORY, PODS


def _unnamed(*row: int) -> str:
    """Where nobody gave a name: the last number."""
    return str(row[-1])


@dataclass(frozen=True, slots=True)
class NameTable:
    """Rows that a Wait refers to, back to names."""

    resources: Sequence[str]  # Snapshot.resources
    node: Callable[[int], str]
    queue: Callable[[int], str]
    gang: Callable[[int], str]
    queue_of: Callable[[int], str]  # the queue that a gang names; "" where that is not known
    level: Callable[[int, int], str] = _unnamed  # of (topology, level)
    domain: Callable[[int, int, int], str] = _unnamed  # of (topology, level, code)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a gang waits: the headline, and lines of detail that do not repeat it."""

    headline: str
    details: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line."""
        return "; ".join((self.headline, *self.details))


def explain(wait: Wait, names: NameTable) -> Explanation:
    """The words for one Wait."""
    say = _HEADLINES.get(wait.reason, _no_room)
    headline = say(wait, names)
    return Explanation(headline, tuple(d for d in _details(wait, names) if d not in headline))


def amount(row: int, value: float, resources: Sequence[str]) -> str:
    """A quantity of a resource row as people write it: `2 GPUs`, `1.5 CPUs`, `16 GiB memory`."""
    if row == GPU:
        return _plural(value, "GPU")
    if row == CPU:
        return _plural(value / 1000, "CPU")
    if row == MEMORY:
        return f"{_bytes(value)} memory"
    if row == PODS:
        return _plural(value, "pod slot")
    name = resources[row] if row < len(resources) else f"resource {row}"
    return f"{_bytes(value) if name == _DISK else _number(value)} {name}"


def phrase(reason: Reason) -> str:
    """What a node lacks or has that rules it out, in a few words."""
    return _PHRASES.get(reason, reason.name.lower().replace("_", " "))


def _details(wait: Wait, names: NameTable) -> list[str]:
    lines = [
        f"{_plural(count, 'node')} {phrase(reason)}"
        for reason, count in wait.counts
        if reason in _PHRASES  # what blocks a pod everywhere is said once, in the headline
    ]
    cause = wait.queue_cause
    if cause is not None and cause.reason is Reason.BEHIND_OTHERS:
        used = amount(cause.resource, cause.used, names.resources)
        share = amount(cause.resource, cause.bound, names.resources)
        lines.append(f"queue {names.queue(cause.queue)} uses {used} of a fair share of {share}")
    if wait.behind:
        lines.append("went first: " + ", ".join(map(names.gang, wait.behind)))
    if wait.delay_s > 0 and wait.reason is not Reason.PREEMPTION_DELAY:
        wait_s = _plural(math.ceil(wait.delay_s), "second")
        lines.append(f"may have others evicted in {wait_s} (preemption delay)")
    if not wait.blocks_start:
        lines.append("the minimum runs, only further pods wait")
    return lines


def _no_room(wait: Wait, names: NameTable) -> str:
    """Room or rules of nodes: what is needed at once, what is free, how near the nearest is."""
    row = _telling_row(wait)
    asked, free = dict(wait.asked), dict(wait.free)
    if row < 0 or row not in asked:
        return f"Waiting for a node: {_plural(wait.wanted, 'pod')}; {_why_no_node(wait)}"
    needed = amount(row, asked[row], names.resources)
    unit = _RESOURCE_WORDS.get(row) or names.resources[row]
    left = _plain(row, free.get(row, 0))
    line = f"Waiting for {unit}: {_bare(row, asked[row], needed)} needed at once, {left} free"
    if wait.reason is Reason.GANG_DOES_NOT_FIT:
        return f"{line}; room for {wait.placeable} of {_plural(wait.wanted, 'pod')}"
    if wait.missing:
        lacks = _list([amount(r, value, names.resources) for r, value in wait.missing])
        return f"{line}; nearest node {names.node(wait.nearest)} lacks {lacks}"
    return line


def _fragmented(wait: Wait, names: NameTable) -> str:
    """Enough is free in parts of several devices, not on one (or not on as many as asked)."""
    asked, free = dict(wait.asked).get(GPU, 0), dict(wait.free).get(GPU, 0)
    each = _plural(asked / max(wait.wanted, 1), "GPU")
    largest = _number(float(wait.detail)) if wait.detail else "0"
    return (
        f"Waiting for shared GPUs: a pod asks for {each}, {_number(free)} free in all, at most "
        f"{largest} of one device"
    )


def _why_no_node(wait: Wait) -> str:
    if not wait.counts:
        return "the cluster has no node that may take it"
    reason, count = max(wait.counts, key=lambda pair: (pair[0] is wait.reason, pair[1]))
    return f"{_plural(count, 'node')} {phrase(reason)}"


def _over_limit(wait: Wait, names: NameTable) -> str:
    cause, queue, bound, used, asked = _quota_figures(wait, names)
    full = "is at its limit" if cause.used >= cause.bound else "would pass its limit"
    return f"Waiting for quota: queue {queue} {full} of {bound} ({used} used, {asked} asked)"


def _over_quota(wait: Wait, names: NameTable) -> str:
    _, queue, bound, used, asked = _quota_figures(wait, names)
    return (
        f"Waiting for quota: non-preemptible pods of queue {queue} must stay within its quota of "
        f"{bound} ({used} used, {asked} asked)"
    )


def _quota_figures(wait: Wait, names: NameTable) -> tuple[QueueCause, str, str, str, str]:
    cause = wait.queue_cause
    assert cause is not None, "a wait for quota names the queue"
    return (
        cause,
        names.queue(cause.queue),
        amount(cause.resource, cause.bound, names.resources),
        _plain(cause.resource, cause.used),
        _plain(cause.resource, cause.requested),
    )


def _larger_than_any(wait: Wait, names: NameTable) -> str:
    line = "Can never start: a pod asks for more than any node that suits it has"
    if not wait.missing:
        return line
    lacks = _list([amount(row, value, names.resources) for row, value in wait.missing])
    return f"{line}; nearest node {names.node(wait.nearest)} lacks {lacks}"


def _incomplete(wait: Wait, names: NameTable) -> str:
    if wait.placeable >= wait.wanted:
        return "Waiting for pods: a subgroup has fewer than its minimum"
    return f"Waiting for pods: {wait.placeable} of the {wait.wanted} that its minimum needs exist"


def _gated(wait: Wait, names: NameTable) -> str:
    return f"Waiting for the scheduling gates of {_plural(wait.wanted, 'pod')} to be removed"


def _release(wait: Wait, names: NameTable) -> str:
    return f"Waiting for room that is being released: {_plural(wait.placeable, 'pod')} next in line"


def _victims(wait: Wait, names: NameTable) -> str:
    return f"Waiting for others to leave: {_plural(wait.placeable, 'pod')} next in line"


def _queue_refuses(what: str, mend: str) -> Callable[[Wait, NameTable], str]:
    def say(wait: Wait, names: NameTable) -> str:
        queue = names.queue_of(wait.gang)
        return f"{f'Queue {queue}' if queue else 'Its queue'} {what}: {mend}"

    return say


def _topology(wait: Wait, names: NameTable) -> str:
    """What must stay together, and the domain that comes nearest."""
    lack = wait.domain
    if lack is None:
        return "Waiting for room in one topology domain"
    if lack.level < 0:
        return f"Waiting for room inside the topology: {lack.room} of {_plural(lack.wanted, 'pod')}"
    level = names.level(lack.topology, lack.level)
    line = f"Waiting for one domain of {level} with room for {_plural(lack.wanted, 'pod')}"
    if lack.tied:
        line += ", the one where others of the gang run"
    if lack.domain < 0:
        return f"{line}; no node belongs to one"
    near = f"{names.domain(lack.topology, lack.level, lack.domain)} has room for {lack.room}"
    if not lack.missing:
        return f"{line}; nearest: {near}"
    lacks = _list([amount(row, value, names.resources) for row, value in lack.missing])
    return f"{line}; nearest: {near}, lacks {lacks}"


def _reserved(wait: Wait, names: NameTable) -> str:
    """Either nodes are kept for others, or a number of GPUs that queues have reserved."""
    cause = wait.queue_cause
    if cause is None or cause.reason is not Reason.RESERVED_FOR_OTHERS:
        return _no_room(wait, names)
    free = _number(max(cause.bound - cause.used, 0))
    kept = amount(cause.resource, cause.bound, names.resources)
    if cause.size > 1:
        kept += f" (by {cause.size} on one node)"
    return (
        f"Waiting for GPUs: queue {names.queue(cause.queue)} keeps {kept} in reserve, of which "
        f"{free} are unused; {_plain(cause.resource, cause.requested)} asked"
    )


def _delayed(wait: Wait, names: NameTable) -> str:
    """Others would leave for it, if it were allowed to ask for that yet."""
    wait_s = _plural(math.ceil(wait.delay_s), "second")
    return f"Waiting for its preemption delay: it may have others evicted in {wait_s}"


def _fixed(text: str) -> Callable[[Wait, NameTable], str]:
    def say(wait: Wait, names: NameTable) -> str:
        return f"{text}: {wait.detail}" if wait.detail else text

    return say


def _volumes(wait: Wait, names: NameTable) -> str:
    """Either no node at all can reach the volumes, or those that can have no room."""
    if wait.detail:
        return f"Can start nowhere: no node is within reach of its volumes ({wait.detail})"
    return _no_room(wait, names)


_HEADLINES: dict[Reason, Callable[[Wait, NameTable], str]] = {
    Reason.OVER_LIMIT: _over_limit,
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: _over_quota,
    Reason.LARGER_THAN_ANY_NODE: _larger_than_any,
    Reason.GANG_INCOMPLETE: _incomplete,
    Reason.POD_GATED: _gated,
    Reason.WAITING_FOR_RELEASE: _release,
    Reason.WAITING_FOR_VICTIMS: _victims,
    Reason.QUEUE_NOT_FOUND: _queue_refuses("does not exist", "create it or name another"),
    Reason.QUEUE_NOT_A_LEAF: _queue_refuses("has child queues", "name one of those"),
    Reason.QUEUE_PAUSED: _queue_refuses("is paused, or one above it", "resume it to start jobs"),
    Reason.PRIORITY_NOT_ALLOWED: _queue_refuses(
        "does not allow its priority class",
        "use one that kai.scheduler/allowed-priority-classes of the queue names",
    ),
    Reason.MAX_RUN_TIME_REACHED: _queue_refuses(
        "ended it at its maximum run time",
        "remove the annotation kai.scheduler/max-run-time-reached of the PodGroup to run it again",
    ),
    Reason.SUSPENDED: _fixed("Suspended: resume it to start it (kai job resume)"),
    Reason.GPUS_IDLE: _fixed(
        "Sent away because it did not use its GPUs: it is back in the queue in a moment"
    ),
    Reason.RESERVED_FOR_OTHERS: _reserved,
    Reason.PREEMPTION_DELAY: _delayed,
    Reason.QUEUE_DEPTH: _fixed(
        "Waiting behind others of its queue: a cycle tries only the first of each "
        "(queueDepthPerAction of the shard)"
    ),
    Reason.VOLUME_CLAIM_NOT_FOUND: _fixed(
        "Waiting for a volume claim that is not there or not bound"
    ),
    Reason.VOLUME_NODE_CONFLICT: _volumes,
    Reason.CONFIG_MAP_NOT_FOUND: _fixed("Waiting for a ConfigMap that does not exist"),
    Reason.SUBGROUP_NOT_FOUND: _fixed("A pod names a subgroup that its gang does not have"),
    Reason.TOPOLOGY_UNSATISFIED: _topology,
    Reason.TOPOLOGY_NOT_FOUND: _fixed("It names a Topology that does not exist: create it"),
    Reason.TOPOLOGY_LEVEL_NOT_FOUND: _fixed(
        "It names a level that its Topology does not have: name a node label or alias of it"
    ),
    Reason.MISCONFIGURED: _fixed("Cannot be placed as it is configured"),
    Reason.FRAGMENTED_GPU: _fragmented,
    Reason.MIG_BY_ANNOTATION: _fixed(
        "Can never start: MIG profiles asked for by annotation are not placed; ask for them as "
        "resources (nvidia.com/mig-...)"
    ),
    Reason.MIG_PROFILE_MISSING: _fixed("Can never start: no node offers the MIG profile"),
    Reason.CLAIM_NOT_FOUND: _fixed("Waiting for a resource claim that does not exist"),
    Reason.DEVICE_CLASS_NOT_FOUND: _fixed("Waiting for a device class that does not exist"),
    Reason.CLAIM_WRONG_QUEUE: _fixed(
        "Cannot share a GPU claim that does not name its queue in the label kai.scheduler/queue"
    ),
    Reason.BACKING_OFF: _fixed("Waiting before the next attempt to bind"),
}

_PHRASES = {
    Reason.INSUFFICIENT_GPU: "without enough free GPUs",
    Reason.INSUFFICIENT_CPU: "without enough free CPU",
    Reason.INSUFFICIENT_MEMORY: "without enough free memory",
    Reason.INSUFFICIENT_RESOURCE: "without enough of another resource",
    Reason.NO_POD_SLOT: "without a free pod slot",
    Reason.NODE_NOT_READY: "not ready",
    Reason.NODE_CORDONED: "cordoned",
    Reason.NODE_SELECTOR_MISMATCH: "outside its node selector or affinity",
    Reason.QUEUE_NODE_POOL_MISMATCH: "that its queue may not use (node pool or GPU type)",
    Reason.RESERVED_FOR_OTHERS: "kept for other workloads",
    Reason.UNTOLERATED_TAINT: "with a taint it does not tolerate",
    Reason.HOST_PORT_IN_USE: "where its host port is taken",
    Reason.POD_AFFINITY_UNSATISFIED: "without the pods it must be near",
    Reason.POD_ANTI_AFFINITY_CONFLICT: "with pods it must be apart from",
    Reason.TOPOLOGY_SPREAD_UNSATISFIED: "in a domain that holds too many of its pods",
    Reason.VOLUME_NODE_CONFLICT: "out of reach of its volume",
    Reason.NUMA_UNALIGNED: "whose NUMA cells cannot hold the pod as it must be aligned",
    Reason.GPUS_NOT_LINKED: "without enough free GPUs that are linked",
    Reason.DEVICES_UNMATCHED: "without enough free devices that belong together as claimed",
    Reason.FRAGMENTED_GPU: "with enough GPU memory in all, but not on one device",
    Reason.GPU_MEMORY_UNKNOWN: "without a word of how much memory their GPUs have",
    Reason.GPU_TOO_SMALL: "whose GPUs have less memory than asked",
    Reason.GPU_NOT_SHAREABLE: "whose GPUs are offered by resource slices and not shared",
    Reason.MIG_MISMATCH: "whose GPUs are partitioned otherwise",
    Reason.CLAIM_FULL: "out of question: as many pods hold its resource claim as may",
    Reason.CLAIM_ELSEWHERE: "away from the devices of its resource claim",
}

_DISK = "ephemeral-storage"
_RESOURCE_WORDS = {GPU: "GPUs", CPU: "CPU", MEMORY: "memory", PODS: "pod slots"}
_ROW_OF = {
    Reason.INSUFFICIENT_GPU: GPU,
    Reason.INSUFFICIENT_CPU: CPU,
    Reason.INSUFFICIENT_MEMORY: MEMORY,
}


def _telling_row(wait: Wait) -> int:
    """The resource of the headline; -1 where resources are not what is lacking."""
    if wait.reason in _ROW_OF:
        return _ROW_OF[wait.reason]
    if wait.reason is Reason.INSUFFICIENT_RESOURCE:
        return next((row for row, _ in wait.missing if row > PODS), -1)
    if wait.reason is Reason.GANG_DOES_NOT_FIT and wait.asked:
        free = dict(wait.free)
        scarce = sorted(wait.asked, key=lambda pair: -pair[1] / max(free.get(pair[0], 0), 1))
        asked = dict(wait.asked)
        return GPU if GPU in asked else scarce[0][0]
    return -1


def _bare(row: int, value: float, full: str) -> str:
    """The figure without the resource's word where the sentence has just said it."""
    return _number(value) if row == GPU else full


def _plain(row: int, value: float) -> str:
    if row == CPU:
        return _number(value / 1000)
    return _bytes(value) if row == MEMORY else _number(value)


def _bytes(value: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{_number(value / size)} {unit}"
    return f"{_number(value)} B"


def _plural(value: float, word: str) -> str:
    return f"{_number(value)} {word}" if value == 1 else f"{_number(value)} {word}s"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value != int(value) else str(int(value))


def _list(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]

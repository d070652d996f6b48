"""Every reason a user can be shown: one enum for conditions, events, metrics and the CLI."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Reason(IntEnum):
    """Why something waits or was moved. Additive only: recordings hold the numbers."""

    NONE = 0
    # the node does not suit
    INSUFFICIENT_GPU = 1
    INSUFFICIENT_CPU = 2
    INSUFFICIENT_MEMORY = 3
    INSUFFICIENT_RESOURCE = 4  # ephemeral storage or an extended resource
    NO_POD_SLOT = 5
    NODE_NOT_READY = 6
    NODE_CORDONED = 7
    NODE_SELECTOR_MISMATCH = 8
    UNTOLERATED_TAINT = 9
    HOST_PORT_IN_USE = 10
    POD_AFFINITY_UNSATISFIED = 11
    POD_ANTI_AFFINITY_CONFLICT = 12
    TOPOLOGY_SPREAD_UNSATISFIED = 13
    VOLUME_NODE_CONFLICT = 14
    # the pod can run nowhere
    LARGER_THAN_ANY_NODE = 20
    VOLUME_CLAIM_NOT_FOUND = 21
    CONFIG_MAP_NOT_FOUND = 22
    # the queue does not allow it
    QUEUE_NOT_FOUND = 30
    QUEUE_NOT_A_LEAF = 31
    QUEUE_PAUSED = 32
    OVER_LIMIT = 33
    NON_PREEMPTIBLE_OVER_QUOTA = 34
    BEHIND_OTHERS = 35
    # the gang is not complete
    GANG_INCOMPLETE = 40
    GANG_DOES_NOT_FIT = 41  # single pods fit, the minimum does not
    POD_GATED = 42
    SUBGROUP_NOT_FOUND = 43
    TOPOLOGY_UNSATISFIED = 44  # it fits, but in no single domain of the level that it requires
    TOPOLOGY_NOT_FOUND = 45
    TOPOLOGY_LEVEL_NOT_FOUND = 46
    QUEUE_DEPTH = 47  # others of its queue come first, and only so many of a queue are tried
    # rules of the queue for its gangs
    QUEUE_NODE_POOL_MISMATCH = 36  # the queue may not use the node: its pool or GPU type
    RESERVED_FOR_OTHERS = 37  # the node, or what is free in all, is kept for others
    PRIORITY_NOT_ALLOWED = 38
    MAX_RUN_TIME_REACHED = 39
    # somebody said so
    SUSPENDED = 90
    QUEUE_DRAINED = 91  # it left because its queue was emptied
    GPUS_IDLE = 92  # it left because it did not use its GPUs
    # it is on its way
    WAITING_FOR_RELEASE = 50
    BACKING_OFF = 51
    MISCONFIGURED = 52
    WAITING_FOR_VICTIMS = 53  # others are leaving for it
    PREEMPTION_DELAY = 54  # there is no free room, and it must not evict others yet
    # it was evicted
    RECLAIMED = 60  # for a queue that is below its share
    PREEMPTED = 61  # for a gang of the same queue with a higher priority
    CONSOLIDATED = 62  # moved, so that a gang fits that did not
    STALE_GANG = 63  # it ran below its minimum for too long
    # GPUs that are shared, partitioned or claimed
    FRAGMENTED_GPU = 70  # enough in sum, but not on single devices
    GPU_MEMORY_UNKNOWN = 71  # the node does not say how much memory a card has
    GPU_TOO_SMALL = 72  # a card has less memory than is asked of one
    GPU_NOT_SHAREABLE = 73  # the node's devices come from resource slices
    MIG_MISMATCH = 74  # cards are partitioned otherwise than the pod asks
    MIG_PROFILE_MISSING = 75  # no node offers the profile
    MIG_BY_ANNOTATION = 76  # profiles asked for in the old way
    CLAIM_NOT_FOUND = 77
    CLAIM_WRONG_QUEUE = 78  # a shared claim of another queue, or of none
    CLAIM_FULL = 79  # as many pods hold it as may
    CLAIM_ELSEWHERE = 80  # its devices are on another node
    DEVICE_CLASS_NOT_FOUND = 81

    # cells inside the node
    NUMA_UNALIGNED = 110  # it fits the node, but not as its kubelet must align it
    GPUS_NOT_LINKED = 111  # no group of linked GPUs has as many free
    DEVICES_UNMATCHED = 112  # no free devices agree in the attribute in which they must

    @property
    def word(self) -> str:
        """The CamelCase form shown in conditions, events and tables: InsufficientGpu."""
        return "".join(part.capitalize() for part in self.name.split("_"))

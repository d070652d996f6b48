"""What helps against each reason for which a job waits."""

from __future__ import annotations

#: The command that changes what stands in the way, per reason.
REMEDIES = {
    "QueuePaused": "kai queue resume {queue}",
    "QueueNotFound": "kai queue create {queue}, or label the job with another queue",
    "OverLimit": "kai queue set {queue} --gpu-limit N, or wait for the queue's own jobs to end",
    "NonPreemptibleOverQuota": "kai queue set {queue} --gpu N, or make the job preemptible",
    "InsufficientGpu": "kai get nodes shows where GPUs are free; kai get jobs -A who has them",
    "GangDoesNotFit": "kai get nodes shows where GPUs are free; a smaller minimum would start",
    "LargerThanAnyNode": "ask for less per pod: no node is that large",
    "BehindOthers": "kai get jobs -A --queue {queue} shows who is ahead",
    "UntoleratedTaint": "add a toleration, or take the taint off a node",
    "NodeSelectorMismatch": "kai describe node NAME shows the labels that a node has",
    "WaitingForVictims": "nothing: it starts as soon as they have gone",
    "WaitingForRelease": "nothing: it starts as soon as they have gone",
    "PreemptionDelay": "nothing: it may evict others once its preemption delay is over",
    "QueueDepth": "raise queueDepthPerAction of the SchedulingShard, or see who is ahead: "
    "kai get jobs -A --queue {queue}",
    "PriorityNotAllowed": "kai describe queue {queue} shows the priority classes that it allows",
    "QueueNodePoolMismatch": "kai describe queue {queue} shows the node pools and GPU types it may "
    "use",
    "ReservedForOthers": "kai describe queue NAME and kai describe node NAME show what is kept",
    "MaxRunTimeReached": "kubectl annotate queue {queue} kai.scheduler/max-run-time=24h "
    "--overwrite allows longer runs",
    "QueueDrained": "kai queue resume {queue}",
    "TopologyUnsatisfied": "kai get nodes shows who fills the domain; a preferred level in place "
    "of the required one would let it start",
    "TopologyNotFound": "kubectl get topologies shows which there are",
    "TopologyLevelNotFound": "kubectl get topologies -o yaml shows the levels there are",
    "FragmentedGpu": "kai get nodes shows which cards are shared; kai describe node NAME how full",
    "GpuTooSmall": "ask for less gpu-memory, or for nodes with larger cards",
    "GpuMemoryUnknown": "label the nodes with nvidia.com/gpu.memory, or ask for a gpu-fraction",
    "MigMismatch": "kai describe node NAME shows the profiles that a node offers",
    "ClaimWrongQueue": "label the ResourceClaim with kai.scheduler/queue: {queue}",
    "NumaUnaligned": "ask for less per pod, or for the policy best-effort",
    "GpusNotLinked": "ask for fewer GPUs per pod, or for the policy best-effort",
    "BackingOff": "kubectl get events shows what refused the pods",
}

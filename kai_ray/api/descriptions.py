"""What `kubectl explain` says of each field of our kinds: by struct, under the name on the wire.

Beside the types and not in them, so that both can be read. A test asks for a text for every field.
"""

from __future__ import annotations

from . import core, gpu_state, kai

Texts = dict[str, str]

#: Of every kind. An API server describes `metadata` itself, and refuses other words.
ROOT: Texts = {
    "apiVersion": "Version of the schema of this object.",
    "kind": "Kind of this object.",
    "spec": "What is wanted.",
    "status": "What was found; written by the scheduler, not by people.",
}

_GRANTED = "What its running pods hold, by resource."
_GRANTED_FIRMLY = "The part of it that cannot be preempted."
_REQUESTED = "What all its pods ask for, by resource."
_CONDITIONS = "What holds just now, one entry a type."

FIELDS: dict[type, Texts] = {
    core.Condition: {
        "type": "What the condition is about.",
        "status": "True, False or Unknown.",
        "reason": "One word for programs.",
        "message": "The same for people: what is wrong and what would mend it.",
        "lastTransitionTime": "When the status changed last.",
        "observedGeneration": "The generation of the object that was looked at.",
    },
    core.ResourceRequirements: {
        "requests": "What is set aside.",
        "limits": "What may be used at most.",
        "claims": "Claims of devices that are used.",
    },
    core.ResourceClaimRef: {
        "name": "Name of the claim in the pod.",
        "request": "One request of the claim; all of them if left out.",
    },
    kai.QueueResources: {
        "gpu": "GPUs, in devices; parts count as parts.",
        "cpu": "CPU, in thousandths of a core.",
        "memory": "Memory, in MB (10^6 bytes).",
    },
    kai.QueueSpec: {
        "resources": "Quota, limit and weight of each resource. A resource that is left out gets "
        "nothing.",
        "displayName": "Name for people.",
        "preemptMinRuntime": "How long a job runs before one of the same queue may evict it.",
        "reclaimMinRuntime": "How long a job runs before other queues may take back its room.",
    },
    kai.QueueStatus: {
        "conditions": _CONDITIONS,
        "childQueues": "Names of the queues right below.",
        "allocated": _GRANTED,
        "allocatedNonPreemptible": _GRANTED_FIRMLY,
        "requested": _REQUESTED,
        "fairShare": "What it may hold by the present division, by resource.",
        "pending": "Gangs that wait.",
    },
    kai.TopologyConstraint: {
        "topology": "Name of the Topology.",
        "requiredTopologyLevel": "All pods are placed inside one domain of this level, or not at "
        "all.",
        "preferredTopologyLevel": "They are placed inside one domain of this level if that can be.",
    },
    kai.SubGroup: {
        "name": "Its name, unique in the PodGroup; pods name it in the label "
        "kai.scheduler/subgroup-name.",
        "parent": "Name of the subgroup above; without one it lies right below the PodGroup.",
        "minMember": "Pods that must start together; 0 makes the subgroup optional. For subgroups "
        "without children.",
        "minSubGroup": "How many of its children must start; all if left out. For subgroups with "
        "children.",
        "topologyConstraint": "Where its pods may be placed relative to each other.",
    },
    kai.PodGroupSpec: {
        "queue": "Name of the queue in which the gang waits and is accounted.",
        "priorityClassName": "Name of its priority class; higher ones go first inside a queue.",
        "preemptibility": "Whether it may be evicted; unset, by priority: below 100 it may.",
        "topologyConstraint": "Where its pods may be placed relative to each other.",
        "subGroups": "Parts of the gang with minima of their own, as a tree.",
        "preemptionDelay": "How long it waits before it may have others evicted for it.",
        "stalenessGracePeriod": "How long it may run below its minimum before it is evicted; "
        "negative is for ever.",
        "markUnschedulable": "Whether its pods get the condition that says why they wait; true if "
        "left out.",
        "schedulingBackoff": "-1: it is tried for ever. 1: once in each node pool.",
        "parallelism": "Kept for KAI's tools; nothing decides by it.",
        "completions": "Kept for KAI's tools; nothing decides by it.",
        "backoffLimit": "Kept for KAI's tools; nothing decides by it.",
    },
    kai.UnschedulableReason: {
        "reason": "One word for programs.",
        "message": "The same for people.",
        "details": "Figures that belong to it.",
    },
    kai.SchedulingCondition: {
        "type": "Always UnschedulableOnNodePool.",
        "nodePool": "The node pool that was tried.",
        "status": "True while it does not fit there.",
        "reason": "Deprecated: see reasons.",
        "message": "Deprecated: see reasons.",
        "transitionID": "A number that grows with each change.",
        "lastTransitionTime": "When it changed last.",
        "reasons": "Why it does not fit.",
    },
    kai.ResourcesStatus: {
        "allocated": _GRANTED,
        "allocatedNonPreemptible": _GRANTED_FIRMLY,
        "requested": _REQUESTED,
    },
    kai.PodGroupStatus: {
        "conditions": _CONDITIONS,
        "schedulingConditions": "Why it does not fit, one entry a node pool.",
        "resourcesStatus": "What its pods hold and ask for.",
        "phase": "The state of the gang in one word.",
        "pending": "Pods that wait.",
        "running": "Pods that run.",
        "succeeded": "Pods that have ended well.",
        "failed": "Pods that have failed.",
    },
    kai.ReceivedGpu: {
        "count": "Number of devices.",
        "portion": "The part of each device that is given, with two digits.",
    },
    kai.ResourceClaimAllocation: {
        "name": "Name of the claim in the pod.",
        "allocation": "The devices that it is to get, as in the status of a ResourceClaim.",
    },
    kai.ContainerMapping: {
        "containerName": "The container that asked.",
        "resourceName": "The resource that it asked for.",
        "requestName": "The request of the claim that stands for it.",
    },
    kai.ExtendedResourceClaimAllocation: {
        "allocation": "The devices that it is to get, as in the status of a ResourceClaim.",
        "deviceRequests": "What is asked for, as in the spec of a ResourceClaim.",
        "containerMappings": "Which container asked for what.",
    },
    kai.NumaZone: {
        "zone": "Name of the zone.",
        "amount": "What the pod holds there, by resource.",
    },
    kai.BindRequestSpec: {
        "podName": "The pod to bind, in the same namespace.",
        "selectedNode": "The node to bind it to.",
        "receivedResourceType": "Whole devices, parts of devices, or profiles.",
        "receivedGPU": "The GPUs that it gets.",
        "selectedGPUGroups": "The shared devices that it gets a part of.",
        "resourceClaimAllocations": "Devices for the claims of the pod.",
        "extendedResourceClaimAllocation": "Devices for resources that are served by way of a "
        "claim.",
        "predictedNUMAZones": "The zones of the node in which it will probably be placed.",
        "backoffLimit": "How often it is tried.",
    },
    kai.BindRequestStatus: {
        "phase": "How far it is.",
        "reason": "Why it has failed.",
        "failedAttempts": "How often it has failed.",
    },
    kai.TopologyLevel: {
        "nodeLabel": "Key of the node label whose values are the domains of the level.",
        "alias": "Another name of the level, for constraints.",
    },
    kai.PlacementStrategy: {
        "gpu": "Pods with GPUs: fill nodes up (binpack), or spread over them.",
        "cpu": "Other pods: fill nodes up (binpack), or spread over them.",
    },
    kai.MinRuntime: {
        "preemptMinRuntime": "How long a job runs before one of the same queue may evict it, where "
        "queues do not say.",
        "reclaimMinRuntime": "How long a job runs before other queues may take back its room, "
        "where queues do not say.",
    },
    kai.PluginConfig: {
        "enabled": "Whether it is used.",
        "priority": "Higher ones are asked first.",
        "arguments": "Its settings.",
    },
    kai.ActionConfig: {
        "enabled": "Whether it is taken.",
        "priority": "Higher ones are taken first.",
    },
    kai.UsageParams: {
        "halfLifePeriod": "After so long, use counts half; unset, all of the window counts alike.",
        "windowSize": "How far back use counts.",
        "windowType": "How the window moves: with the time (sliding), or at set times (tumbling).",
        "tumblingWindowCronString": "When a tumbling window begins anew.",
        "fetchInterval": "How often use is read.",
        "stalenessPeriod": "After so long without news, use is left out of account.",
        "waitTimeout": "How long a start waits for the first reading.",
        "extraParams": "Further settings of the source.",
    },
    kai.UsageDBConfig: {
        "clientType": "The kind of source.",
        "connectionString": "Where the source is.",
        "connectionStringEnvVar": "The environment variable that says where the source is.",
        "usageParams": "Which use counts, and how much.",
    },
    kai.ScenarioSearchBudgets: {
        "maxActionSearchDuration": "Longest search of an action, by its name.",
        "maxJobSearchDuration": "Longest search for one job.",
        "minJobSearchDuration": "What a job gets at least, whatever others have used up.",
        "maxGeneratorSearchDuration": "Longest search of a way to combine victims, by its name.",
    },
    kai.SchedulingShardSpec: {
        "args": "Arguments of the scheduler, as its command line takes them.",
        "partitionLabelValue": "The node pool that is served; unset, all nodes without one.",
        "placementStrategy": "Whether nodes are filled up or pods are spread.",
        "queueDepthPerAction": "How many jobs of a queue an action looks at, by its name.",
        "minRuntime": "How long jobs run before they may be evicted.",
        "kValue": "How much past use counts against a queue; 0 is not at all.",
        "usageDBConfig": "Where past use is read from.",
        "plugins": "Settings of plugins, by name.",
        "actions": "Settings of actions, by name.",
        "goMemLimitRatio": "Kept for KAI's files; no Go runs here.",
        "goMemLimit": "Kept for KAI's files; no Go runs here.",
        "scenarioSearchBudgets": "How long searches for victims may take.",
    },
    kai.ShardStatus: {"conditions": _CONDITIONS},
    kai.GlobalConfig: {
        "queueLabelKey": "Label of workloads that names their queue.",
        "schedulerName": "Pods with this schedulerName are ours.",
        "nodePoolLabelKey": "Label of nodes that names their pool.",
        "replicaCount": "Replicas of each part.",
        "jsonLog": "Whether logs are JSON.",
        "priorityClassName": "Priority class of our own pods.",
        "namespaceLabelSelector": "Namespaces whose pods are looked at.",
        "podLabelSelector": "Pods that are looked at.",
    },
    kai.AdmissionConfig: {
        "gpuSharing": "Whether pods may ask for parts of GPUs.",
        "queueLabelSelector": "Whether only pods with the label of a queue are looked at.",
        "blockNvidiaVisibleDevices": "Whether pods without GPUs are kept from seeing them.",
        "gpuFractionRuntimeClassName": "Runtime class of pods that share GPUs and name none.",
        "gpuPodRuntimeClassName": "Deprecated: see gpuFractionRuntimeClassName.",
        "resources": "What the webhook's pod asks for.",
    },
    kai.PodGrouperArgs: {
        "gangScheduleKnative": "Whether the pods of a Knative revision are one gang.",
        "defaultPrioritiesConfigMapName": "ConfigMap with the default priority of each kind.",
        "defaultPrioritiesConfigMapNamespace": "Namespace of that ConfigMap.",
        "genericKartaFallback": "Whether kinds without a rule are grouped by Karta objects.",
    },
    kai.PodGrouperConfig: {"args": "Its settings."},
    kai.ConfigSpec: {
        "namespace": "Where the parts run.",
        "global": "Settings of all parts.",
        "admission": "Settings of the admission webhook.",
        "podGrouper": "Settings of the podgrouper.",
    },
    gpu_state.GpuProcess: {
        "namespace": "Namespace of the pod.",
        "pod": "Name of the pod; empty where it is not known to which one the processes belong.",
        "uid": "UID of the pod.",
        "container": "Name of the container, or its id.",
        "usedMiB": "Memory of the device that they hold, in MiB.",
        "utilization": "Their part of the device's time, mean of the period.",
    },
    gpu_state.MigInstance: {
        "uuid": "UUID of the instance.",
        "profile": "Its profile, such as 1g.10gb.",
        "memoryMiB": "Its memory, in MiB.",
        "usedMiB": "Memory in use, in MiB.",
        "processes": "What runs on it, one entry a container.",
    },
    gpu_state.GpuDevice: {
        "uuid": "UUID of the device.",
        "index": "Its number on the node.",
        "model": "Its product name.",
        "memoryMiB": "Its memory, in MiB.",
        "usedMiB": "Memory in use, in MiB.",
        "utilization": "Part of the period in which something ran on it.",
        "powerWatts": "Its present power.",
        "healthy": "Whether it can be used.",
        "problem": "What is wrong with it, or what could not be read.",
        "numaNode": "The NUMA cell that it is next to.",
        "links": "Numbers of the devices that it reaches by NVLink, itself or by a switch.",
        "migInstances": "The instances that it is divided into.",
        "pods": "UIDs of the pods that were given it; left out where that is not known.",
        "processes": "What runs on it, one entry a container; left out where that is not known.",
    },
    gpu_state.GPUNodeStatus: {
        "observedAt": "When these figures were read.",
        "periodSeconds": "How long before that the means go back.",
        "source": "Who wrote it: the driver was asked (nvml), or a model (simulated).",
        "driver": "Version of the driver.",
        "problem": "Why there are no figures, or not all.",
        "devices": "One entry a device.",
    },
}

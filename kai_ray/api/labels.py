"""Every label, annotation and well-known name that we read or write, under one roof."""

SCHEDULER_NAME = "kai-scheduler"
DEFAULT_QUEUE = "default-queue"
DEFAULT_PARENT_QUEUE = "default-parent-queue"

# KAI: workload and pod
QUEUE = "kai.scheduler/queue"
NODE_POOL = "kai.scheduler/node-pool"
PRIORITY_CLASS = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
TASK_PRIORITY = "kai.scheduler/task-priority"
SUBGROUP = "kai.scheduler/subgroup-name"
POD_GROUP = "pod-group-name"
SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
BATCH_MIN_MEMBER = "kai.scheduler/batch-min-member"
PREEMPTION_DELAY = "kai.scheduler/preemption-delay"
STALENESS_GRACE_PERIOD = "kai.scheduler/staleness-grace-period"
LEGACY_PROJECT = "project"
USER = "user"
TOP_OWNER_METADATA = "kai.scheduler/top-owner-metadata"
TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_TOPOLOGY_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_TOPOLOGY_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
GPU_FRACTION = "gpu-fraction"
GPU_MEMORY = "gpu-memory"
GPU_FRACTION_DEVICES = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER = "gpu-fraction-container-name"
MPS = "mps"
GPU_GROUP = "runai-gpu-group"  # on pods that share a device: which; several: GPU_GROUP/<group>
RECEIVED_TYPE = "received-resource-type"
SHARED_GPU_CONFIG = "runai/shared-gpu-configmap"  # on a pod: how its ConfigMaps' names begin
RESERVED_GPU = "run.ai/reserve_for_gpu_index"  # on a reservation pod: the UUID of its device
APP = "app"
RESERVATION = "kai-resource-reservation"  # value of APP on reservation pods; namespace, account
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIG_PREFIX = "nvidia.com/mig-"

# NVIDIA GPU feature discovery, on nodes
GPU_CARD_MEMORY = "nvidia.com/gpu.memory"  # MiB of one card
MIG_STRATEGY = "nvidia.com/mig.strategy"
MPS_CAPABLE = "nvidia.com/mps.capable"
SHARING_STRATEGY = "nvidia.com/gpu.sharing-strategy"
HAMI_REGISTERED = "hami.io/node-nvidia-register"  # annotation
MIG_ENABLED = "node-role.kubernetes.io/mig-enabled"

# KAI: zones of its node that a pod holds, as JSON [{"zone": name, "amount": {resource: amount}}]
NUMA_OBSERVED = "kai.scheduler/numa-placement-observed"
NUMA_PREDICTED = "kai.scheduler/numa-placement-predicted"

# KAI: PodGroup
LAST_START = "kai.scheduler/last-start-timestamp"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
CHECKPOINT_TIME = "kai.scheduler/checkpoint-time"  # when the workload last saved its work
OUTCOME = "kai.scheduler/workload-outcome"  # Succeeded or Failed, and its operator's words
SEMI_PREEMPTIBLE = "semi-preemptible"  # value of PREEMPTIBILITY: only pods above the minimum go

# Kueue's synonyms
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_TOPOLOGY_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_TOPOLOGY_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"

# ours
NODE_TOPOLOGY_POLICY = "kai.scheduler/node-topology-policy"  # on pods: single-numa, nvlink, ...
NODE_ZONES = "kai.scheduler/zones"  # on nodes: NUMA cells and link groups, as JSON
LINKS_PREDICTED = "kai.scheduler/gpu-links-predicted"  # on pods, like NUMA_PREDICTED
MANAGED_NAMESPACE = "kai.scheduler/managed"
#: On a workload: "true" lets its size follow the room between its bounds, "false" never.
ELASTIC = "kai.scheduler/elastic"
#: On a Job: the most pods that may run at once; makes it elastic.
MAX_PARALLELISM = "kai.scheduler/max-parallelism"
#: On an elastic workload: JSON, part -> the size asked for by its user and the one given.
ELASTIC_SIZE = "kai.scheduler/elastic-size"
#: On a workload: "one-by-one" starts pods that its autoscaler asks for as they fit.
GROWTH = "kai.scheduler/growth"
#: On a PodGroup: JSON, subgroup -> pods asked for. They start together, once the minimum runs.
GROWS_TOGETHER = "kai.scheduler/grows-together"
MIN_MEMBER = "kai.scheduler/min-member"
GPU_PORTION = "kai.scheduler/gpu-portion"  # on a bound pod: the part of each device it was given
GPU_DEVICES = "kai.scheduler/gpu-devices"  # on the same: the UUIDs of those devices
GPU_ISOLATION = "kai.scheduler/gpu-isolation"  # on the same, and on nodes: mps, hami, none
GPU_SHARES = "kai.scheduler/gpu-shares"  # on a reservation pod: who may have how much, as JSON
CLAIM_WITHDRAWN = "kai.scheduler/gpu-claim-withdrawn"  # on a pod: its part of which card
QUEUE_PAUSED = "kai.scheduler/paused"
DRAIN_DEADLINE = "kai.scheduler/drain-deadline"  # on a Queue: what still runs then has to leave
DRAINED = "kai.scheduler/drained"  # on a Queue: when that deadline was found to have passed
PLACEMENT_STRATEGY = "kai.scheduler/placement-strategy"  # on a Queue, as the next six
DEFAULT_PRIORITY_CLASS = "kai.scheduler/default-priority-class"
ALLOWED_PRIORITY_CLASSES = "kai.scheduler/allowed-priority-classes"
NODE_POOLS = "kai.scheduler/node-pools"
GPU_TYPES = "kai.scheduler/gpu-types"
MAX_RUN_TIME = "kai.scheduler/max-run-time"
RESERVED_GPUS = "kai.scheduler/reserved-gpus"
USAGE = "kai.scheduler/usage"  # on a Queue, written by us: its part of the cluster lately, as JSON
RESERVED_FOR = "kai.scheduler/reserved-for"  # on a Node: the workload types that may use it
WORKLOAD_TYPE = "kai.scheduler/workload-type"  # on a workload: build, train, inference
SUSPENDED = "kai.scheduler/suspended"  # on a workload of a kind that has no field for it
SUSPENDED_GATE = SUSPENDED  # the scheduling gate of pods that come in meanwhile
MAX_RUN_TIME_REACHED = "kai.scheduler/max-run-time-reached"  # on a PodGroup: when it was ended
NOTIFY = "kai.scheduler/notify"  # on a Queue or workload: channels and addresses that are told
NOTIFY_ON = "kai.scheduler/notify-on"  # beside it: of what
NOTIFY_AFTER = "kai.scheduler/notify-after"  # beside it: of waits that last longer than this
GPU_PRODUCT = "nvidia.com/gpu.product"
#: Labels by which clouds and we name the pool of a node; any of them counts.
NODE_POOL_NAMES = (
    NODE_POOL,
    "kai.scheduler/sim-node-pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
)
RESUME_AT = "kai.scheduler/resume-at"  # on a workload that the scheduler has suspended
SUSPENDED_AT = "kai.scheduler/suspended-at"  # on the same: when
QUEUED_SINCE = "kai.scheduler/queued-since"  # on the same: its place in the queue
ATTEMPT_ENDED = "kai.scheduler/attempt-ended"  # on a RayJob: the RayCluster we ended, and its UID
EVICTION_GRACE = "kai.scheduler/eviction-grace"  # on a workload or Queue: time to save its work
MAX_EVICTION_GRACE = "kai.scheduler/max-eviction-grace"  # on a Queue: the most a workload may ask
EVICTION_SIGNAL = "kai.scheduler/eviction-signal"  # on a workload or its pods: SIGTERM at notice
EVICTION_NOTICE = "kai.scheduler/eviction-notice"  # on a workload and pods: why and until when
EVICTION_NOTICES = "kai.scheduler/eviction-notices"  # on a PodGroup: the same, for us
TERM = "kai.scheduler/term"  # on what a leader grants: its lease and which term of it
HOLD = "kai.scheduler/hold"  # on a PodGroup: the room that others leave for it, and until when
QUARANTINED_UNTIL = "kai.scheduler/quarantined-until"  # on a Node that rejects pods
QUARANTINE_REASON = "kai.scheduler/quarantine-reason"
BAD_DEVICES = "kai.scheduler/bad-devices"  # on a Node: devices that fail, as JSON; written by us
UNHEALTHY_DEVICES = "kai.scheduler/unhealthy-devices"  # the same by others: names, with commas
#: On a Queue: what counts as idle and what follows, per workload type; inherited.
IDLE_JOBS = "kai.scheduler/idle-jobs"
PROTECTED_HOURS = "kai.scheduler/protected-hours"  # on a Queue: when build jobs may be idle
CHECKPOINTING = "kai.scheduler/checkpointing"  # on a workload or pod: since when it saves its work
IDLE = "kai.scheduler/idle"  # on a PodGroup, written by us: since when, what is due, as JSON
IDLE_EVICTED = "kai.scheduler/idle-evicted"  # on a PodGroup: when it was sent away as idle
SUSPENDED_BY = "kai.scheduler/suspended-by"  # on a workload: who suspended it for good, and why
EVICTED_PODS = "kai.scheduler/evicted-pods"  # on a PodGroup: how many went at its last eviction
STALE_EVICTIONS = "kai.scheduler/stale-evictions"  # on a PodGroup or workload: how often so far
RUN_TIME = "kai.scheduler/sim-run-time"
EXIT_CODE = "kai.scheduler/sim-exit-code"
SIM_POOL = "kai.scheduler/sim-node-pool"
SIM_DOWN = "kai.scheduler/sim-down"
SIM_GPU_USE = "kai.scheduler/sim-gpu-use"  # on a pod or its owners: "90%", "90% for 10m, 0%"
SIM_BAD_GPUS = "kai.scheduler/sim-bad-gpus"  # on a Node: indices of GPUs that fail, with commas

# GPU resource names
NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
GPU_RESOURCES = (NVIDIA_GPU, AMD_GPU)
GPU_DEVICE_CLASS = "gpu.nvidia.com"  # DeviceClass of the whole GPUs that resource slices offer

# Ray
RAY_CLUSTER = "ray.io/cluster"
RAY_NODE_TYPE = "ray.io/node-type"
RAY_GROUP = "ray.io/group"
RAY_PRIORITY_CLASS = "ray.io/priority-class-name"
RAY_REPLICA_NAME = "ray.io/worker-group-replica-name"
RAY_REPLICA_INDEX = "ray.io/worker-group-replica-index"
RAY_HOST_INDEX = "ray.io/replica-host-index"

# Kubeflow
TRAINING_JOB_ROLE = "training.kubeflow.org/job-role"
TRAINING_REPLICA_TYPE = "training.kubeflow.org/replica-type"
TRAINING_REPLICA_INDEX = "training.kubeflow.org/replica-index"
TRAINING_JOB_NAME = "training.kubeflow.org/job-name"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB_INDEX = "jobset.sigs.k8s.io/job-index"

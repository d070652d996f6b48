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

# KAI: PodGroup
LAST_START = "kai.scheduler/last-start-timestamp"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
CHECKPOINT_TIME = "kai.scheduler/checkpoint-time"  # when the workload last saved its work
SEMI_PREEMPTIBLE = "semi-preemptible"  # value of PREEMPTIBILITY: only pods above the minimum go

# Kueue's synonyms
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_TOPOLOGY_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_TOPOLOGY_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"

# ours
MANAGED_NAMESPACE = "kai.scheduler/managed"
MIN_MEMBER = "kai.scheduler/min-member"
QUEUE_PAUSED = "kai.scheduler/paused"
RESUME_AT = "kai.scheduler/resume-at"  # on a workload that the scheduler has suspended
SUSPENDED_AT = "kai.scheduler/suspended-at"  # on the same: when
QUEUED_SINCE = "kai.scheduler/queued-since"  # on the same: its place in the queue
HOLD = "kai.scheduler/hold"  # on a PodGroup: the room that others leave for it, and until when
QUARANTINED_UNTIL = "kai.scheduler/quarantined-until"  # on a Node that rejects pods
QUARANTINE_REASON = "kai.scheduler/quarantine-reason"
STALE_EVICTIONS = "kai.scheduler/stale-evictions"  # on a PodGroup or workload: how often so far
RUN_TIME = "kai.scheduler/sim-run-time"
EXIT_CODE = "kai.scheduler/sim-exit-code"
SIM_POOL = "kai.scheduler/sim-node-pool"
SIM_DOWN = "kai.scheduler/sim-down"

# GPU resource names
NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
GPU_RESOURCES = (NVIDIA_GPU, AMD_GPU)

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

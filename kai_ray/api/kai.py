"""KAI's custom resources: Queue, PodGroup, BindRequest, Topology, SchedulingShard, Config.

Groups, fields and meanings are those of KAI-Scheduler 0.17. The bounds written here (`Meta`) become
the CRD schemas, with the CEL rules of `kai_ray.api.crd`, so that what a struct admits and what an
API server admits are the same. Quotas: gpu in devices, cpu in millicores, memory in MB
(10^6 bytes); -1 is unlimited, an unset value is 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .core import Condition, ObjectMeta, Quantity, ResourceRequirements

#: No quota, limit or weight may exceed this: in bytes (memory) it still fits 64 bits.
LARGEST_AMOUNT = 10**12
MOST_SUBGROUPS = 10_000
MOST_LEVELS = 16

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)
_DURATION = r"([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+"

Amount = Annotated[float, Meta(ge=-1, le=LARGEST_AMOUNT)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, extra_json_schema={"format": "int32"})]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})]
Name = Annotated[str, Meta(max_length=253, pattern=f"({_NAME})|^$")]
LevelName = Annotated[str, Meta(max_length=316, pattern=f"({_KEY})|^$")]
#: A Go duration that is not negative, such as "5m" or "1h30m".
Duration = Annotated[str, Meta(max_length=64, pattern=rf"^(0|{_DURATION})$")]
#: A Go duration that may be negative.
SignedDuration = Annotated[str, Meta(max_length=64, pattern=rf"^-?(0|{_DURATION})$")]
Text = Annotated[str, Meta(max_length=4096)]
ResourceList = dict[str, Quantity]


class QueueResource(Struct, rename="camel", gc=False):
    """One resource of a queue."""

    quota: Annotated[Amount, Meta(description="Guaranteed amount; -1 is unlimited.")] = 0
    over_quota_weight: Annotated[
        Amount, Meta(description="Share of what others leave; 0 gets none.")
    ] = 0
    limit: Annotated[
        Amount,
        Meta(
            description="Most that may be in use at once; -1 is unlimited, 0 or unset is nothing."
        ),
    ] = 0


class QueueResources(Struct, rename="camel", gc=False):
    gpu: QueueResource = field(default_factory=QueueResource)
    cpu: QueueResource = field(default_factory=QueueResource)
    memory: QueueResource = field(default_factory=QueueResource)


class QueueSpec(Struct, rename="camel", gc=False):
    resources: QueueResources = field(default_factory=QueueResources)
    display_name: Annotated[str, Meta(max_length=256)] = ""
    parent_queue: Annotated[Name, Meta(description="The parent's name; a root has none.")] = ""
    priority: Annotated[Int32 | None, Meta(description="Higher goes first; unset is 100.")] = None
    preempt_min_runtime: Duration | None = None
    reclaim_min_runtime: Duration | None = None


class QueueStatus(Struct, rename="camel", gc=False):
    conditions: list[Condition] | None = None
    child_queues: list[str] | None = None
    allocated: ResourceList | None = None
    allocated_non_preemptible: ResourceList | None = None
    requested: ResourceList | None = None
    fair_share: ResourceList | None = None
    pending: int | None = None


class Queue(Struct, rename="camel", gc=False):
    """A queue of the tree over which the cluster is shared."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)


class TopologyConstraint(Struct, rename="camel", gc=False):
    """Levels are node label keys, or aliases that the Topology gives them."""

    topology: Name = ""
    required_topology_level: LevelName = ""
    preferred_topology_level: LevelName = ""


class SubGroup(Struct, rename="camel", gc=False):
    """A leaf needs `minMember` pods; one with children `minSubGroup` of them (all if unset)."""

    name: Annotated[str, Meta(min_length=1, max_length=63, pattern=_LABEL)]
    parent: Annotated[str, Meta(max_length=63, pattern=_LABEL)] | None = None
    min_member: Count | None = None
    min_sub_group: Count | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Struct, rename="camel", gc=False):
    min_member: Annotated[
        Count | None, Meta(description="Pods that must start together; unset is 1, 0 is no gang.")
    ] = None
    min_sub_group: Annotated[
        Count | None, Meta(description="Direct subgroups that must start; unset is all.")
    ] = None
    queue: Name = ""
    priority_class_name: Name = ""
    preemptibility: Literal["preemptible", "non-preemptible"] | None = None
    topology_constraint: TopologyConstraint | None = None
    sub_groups: Annotated[list[SubGroup], Meta(max_length=MOST_SUBGROUPS)] | None = None
    preemption_delay: SignedDuration | None = None
    staleness_grace_period: SignedDuration | None = None
    mark_unschedulable: bool | None = None
    scheduling_backoff: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    backoff_limit: Int32 | None = None


class UnschedulableReason(Struct, rename="camel", gc=False):
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class SchedulingCondition(Struct, rename="camel", gc=False):
    """`type` is always UnschedulableOnNodePool."""

    type: str = "UnschedulableOnNodePool"
    node_pool: str = ""
    status: str = "True"
    reason: str = ""
    message: str = ""
    transition_id: str = field(default="", name="transitionID")
    last_transition_time: str | None = None
    reasons: list[UnschedulableReason] | None = None


class ResourcesStatus(Struct, rename="camel", gc=False):
    allocated: ResourceList | None = None
    allocated_non_preemptible: ResourceList | None = None
    requested: ResourceList | None = None


class PodGroupStatus(Struct, rename="camel", gc=False):
    """`phase` and the counts are for people: nothing decides by them."""

    conditions: list[Condition] | None = None
    scheduling_conditions: list[SchedulingCondition] | None = None
    resources_status: ResourcesStatus | None = None
    phase: str | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


class PodGroup(Struct, rename="camel", gc=False):
    """A gang: pods that are queued, started and evicted together."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


class ReceivedGpu(Struct, rename="camel", gc=False):
    """`portion` is a decimal with two digits: "0.50", "1.00"."""

    count: Count = 0
    portion: Annotated[str, Meta(max_length=16)] = ""


class ResourceClaimAllocation(Struct, rename="camel", gc=False):
    name: str = ""
    allocation: dict[str, Any] | None = None


class ContainerMapping(Struct, rename="camel", gc=False):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimAllocation(Struct, rename="camel", gc=False):
    allocation: dict[str, Any] | None = None
    device_requests: list[dict[str, Any]] | None = None
    container_mappings: list[ContainerMapping] | None = None


class NumaZone(Struct, rename="camel", gc=False):
    zone: str = ""
    amount: ResourceList | None = None


class BindRequestSpec(Struct, rename="camel", gc=False):
    pod_name: Name
    selected_node: Name
    received_resource_type: Literal["Regular", "Fraction", "MigInstance"] | None = None
    received_gpu: ReceivedGpu | None = field(default=None, name="receivedGPU")
    selected_gpu_groups: list[str] | None = field(default=None, name="selectedGPUGroups")
    resource_claim_allocations: list[ResourceClaimAllocation] | None = None
    extended_resource_claim_allocation: ExtendedResourceClaimAllocation | None = None
    predicted_numa_zones: list[NumaZone] | None = field(default=None, name="predictedNUMAZones")
    backoff_limit: Int32 | None = None


class BindRequestStatus(Struct, rename="camel", gc=False):
    phase: Literal["Pending", "Succeeded", "Failed", ""] = ""
    reason: str = ""
    failed_attempts: Int32 = 0


class BindRequest(Struct, rename="camel", gc=False):
    """The order to bind one pod that needs more than a node: devices, claims, zones."""

    metadata: ObjectMeta
    spec: BindRequestSpec
    status: BindRequestStatus = field(default_factory=BindRequestStatus)


_Level = Annotated[str, Meta(min_length=1, max_length=316, pattern=_KEY)]


class TopologyLevel(Struct, rename="camel", gc=False):
    node_label: _Level
    alias: _Level | None = None


class TopologySpec(Struct, rename="camel", gc=False):
    levels: Annotated[
        list[TopologyLevel],
        Meta(min_length=1, max_length=MOST_LEVELS, description="From widest to narrowest."),
    ]


class Topology(Struct, rename="camel", gc=False):
    """Levels of the network, each a node label."""

    metadata: ObjectMeta
    spec: TopologySpec


class PlacementStrategy(Struct, rename="camel", gc=False):
    gpu: Literal["binpack", "spread"] | None = None
    cpu: Literal["binpack", "spread"] | None = None


class MinRuntime(Struct, rename="camel", gc=False):
    preempt_min_runtime: Duration | None = None
    reclaim_min_runtime: Duration | None = None


class PluginConfig(Struct, rename="camel", gc=False):
    enabled: bool | None = None
    priority: int | None = None
    arguments: dict[str, str] | None = None


class ActionConfig(Struct, rename="camel", gc=False):
    enabled: bool | None = None
    priority: int | None = None


class UsageParams(Struct, rename="camel", gc=False):
    """`window_size` is a Prometheus duration ("1w"), the others are Go durations."""

    half_life_period: Duration | None = None
    window_size: Annotated[str, Meta(max_length=64)] | None = None
    window_type: Literal["sliding", "tumbling", "cron"] | None = None
    tumbling_window_cron_string: Annotated[str, Meta(max_length=128)] | None = None
    fetch_interval: Duration | None = None
    staleness_period: Duration | None = None
    wait_timeout: Duration | None = None
    extra_params: dict[str, str] | None = None


class UsageDBConfig(Struct, rename="camel", gc=False):
    client_type: Annotated[str, Meta(max_length=64)] = ""
    connection_string: Annotated[str, Meta(max_length=2048)] = ""
    connection_string_env_var: Annotated[str, Meta(max_length=256)] = ""
    usage_params: UsageParams | None = None


class ScenarioSearchBudgets(Struct, rename="camel", gc=False):
    max_action_search_duration: dict[str, Duration] | None = None
    max_job_search_duration: Duration | None = None
    min_job_search_duration: Duration | None = None
    max_generator_search_duration: dict[str, Duration] | None = None


class SchedulingShardSpec(Struct, rename="camel", gc=False):
    """One partition of the nodes and how it is scheduled."""

    args: dict[str, str] | None = None
    partition_label_value: Annotated[str, Meta(max_length=63)] = ""
    placement_strategy: PlacementStrategy | None = None
    queue_depth_per_action: dict[str, Count] | None = None
    min_runtime: MinRuntime | None = None
    k_value: Annotated[float, Meta(ge=0, le=10**6)] | None = None
    usage_db_config: UsageDBConfig | None = field(default=None, name="usageDBConfig")
    plugins: dict[str, PluginConfig] | None = None
    actions: dict[str, ActionConfig] | None = None
    go_mem_limit_ratio: Annotated[float, Meta(gt=0, le=1)] | None = None
    go_mem_limit: Quantity | None = None
    scenario_search_budgets: ScenarioSearchBudgets | None = None


class ShardStatus(Struct, rename="camel", gc=False):
    conditions: list[Condition] | None = None


class SchedulingShard(Struct, rename="camel", gc=False):
    """One scheduler: the part of the cluster that it serves, and its settings."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: SchedulingShardSpec = field(default_factory=SchedulingShardSpec)
    status: ShardStatus = field(default_factory=ShardStatus)


class GlobalConfig(Struct, rename="camel", gc=False):
    """What all components share, as far as we read it."""

    queue_label_key: Annotated[str, Meta(max_length=316)] = "kai.scheduler/queue"
    scheduler_name: Annotated[str, Meta(max_length=253)] = "kai-scheduler"
    node_pool_label_key: Annotated[str, Meta(max_length=316)] = "kai.scheduler/node-pool"
    replica_count: Count | None = None
    json_log: bool = False
    priority_class_name: Name = ""
    namespace_label_selector: dict[str, str] | None = None
    pod_label_selector: dict[str, str] | None = None


class AdmissionConfig(Struct, rename="camel", gc=False):
    gpu_sharing: bool = False
    queue_label_selector: bool = False
    block_nvidia_visible_devices: bool = False
    gpu_fraction_runtime_class_name: str | None = None
    gpu_pod_runtime_class_name: str | None = None
    resources: ResourceRequirements | None = None


class PodGrouperArgs(Struct, rename="camel", gc=False):
    gang_schedule_knative: bool = True
    default_priorities_config_map_name: str = ""
    default_priorities_config_map_namespace: str = ""
    generic_karta_fallback: bool = True


class PodGrouperConfig(Struct, rename="camel", gc=False):
    args: PodGrouperArgs = field(default_factory=PodGrouperArgs)


class ConfigSpec(Struct, rename="camel", gc=False):
    """Sections that we do not read are kept as they are."""

    namespace: Name = "kai-scheduler"
    global_: GlobalConfig = field(default_factory=GlobalConfig, name="global")
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    pod_grouper: PodGrouperConfig = field(default_factory=PodGrouperConfig)


class Config(Struct, rename="camel", gc=False):
    """The installation; the only instance is called kai-config."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ConfigSpec = field(default_factory=ConfigSpec)
    status: ShardStatus = field(default_factory=ShardStatus)

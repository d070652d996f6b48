"""Core Kubernetes types, as far as we read them.

Decode with `msgspec.json.decode(data, type=Pod)` or `msgspec.convert(obj, Pod)`: unknown fields are
skipped, so only what is named here is built. Quantities stay as the text or number on the wire
(`kai_ray.api.quantity` reads them). `None` means absent.
"""

from __future__ import annotations

from msgspec import Struct, field

#: A Kubernetes quantity as it is on the wire: "500m", 2, 0.5.
Quantity = str | int | float
#: An integer or a percentage or a port name.
IntOrString = int | str


class OwnerReference(Struct, rename="camel", gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class Condition(Struct, rename="camel", gc=False):
    """A condition of any kind (pod, node, job, or the metav1 form)."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class LabelSelectorRequirement(Struct, rename="camel", gc=False):
    """`operator`: In, NotIn, Exists, DoesNotExist (and Gt, Lt for nodes)."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Struct, rename="camel", gc=False):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class ResourceRequirements(Struct, rename="camel", gc=False):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None
    claims: list[ResourceClaimRef] | None = None


class ResourceClaimRef(Struct, rename="camel", gc=False):
    name: str = ""
    request: str = ""


class EnvVar(Struct, rename="camel", gc=False):
    name: str = ""
    value: str | None = None


class ContainerPort(Struct, rename="camel", gc=False):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class Container(Struct, rename="camel", gc=False):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class Toleration(Struct, rename="camel", gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorTerm(Struct, rename="camel", gc=False):
    match_expressions: list[LabelSelectorRequirement] | None = None
    match_fields: list[LabelSelectorRequirement] | None = None


class NodeSelector(Struct, rename="camel", gc=False):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Struct, rename="camel", gc=False):
    weight: int = 1
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(Struct, rename="camel", gc=False):
    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredSchedulingTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, rename="camel", gc=False):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct, rename="camel", gc=False):
    weight: int = 1
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Struct, rename="camel", gc=False):
    """Affinity or anti-affinity to pods."""

    required: list[PodAffinityTerm] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, rename="camel", gc=False):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, rename="camel", gc=False):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class PersistentVolumeClaimVolume(Struct, rename="camel", gc=False):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolume(Struct, rename="camel", gc=False):
    """A claim named `<pod>-<volume>` that lives as long as the pod."""


class ObjectName(Struct, rename="camel", gc=False):
    name: str = ""


class Volume(Struct, rename="camel", gc=False):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    config_map: ObjectName | None = None


class PodResourceClaim(Struct, rename="camel", gc=False):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, rename="camel", gc=False):
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str = "Always"
    overhead: dict[str, Quantity] | None = None
    resources: ResourceRequirements | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    host_network: bool = False
    scheduling_gates: list[ObjectName] | None = None
    runtime_class_name: str | None = None
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class PodStatus(Struct, rename="camel", gc=False):
    phase: str = "Pending"
    conditions: list[Condition] | None = None
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    pod_ip: str = field(default="", name="podIP")
    host_ip: str = field(default="", name="hostIP")
    resize: str = ""


class Pod(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplate(Struct, rename="camel", gc=False):
    """A pod template inside a workload."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class Taint(Struct, rename="camel", gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, rename="camel", gc=False):
    taints: list[Taint] | None = None
    unschedulable: bool = False
    provider_id: str = field(default="", name="providerID")


class NodeStatus(Struct, rename="camel", gc=False):
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None


class Node(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class NamespaceStatus(Struct, rename="camel", gc=False):
    phase: str = "Active"


class Namespace(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class ConfigMap(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class PriorityClass(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""


class PersistentVolumeClaimSpec(Struct, rename="camel", gc=False):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    resources: ResourceRequirements | None = None


class PersistentVolumeClaimStatus(Struct, rename="camel", gc=False):
    phase: str = "Pending"


class PersistentVolumeClaim(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class VolumeNodeAffinity(Struct, rename="camel", gc=False):
    required: NodeSelector | None = None


class ClaimRef(Struct, rename="camel", gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Struct, rename="camel", gc=False):
    capacity: dict[str, Quantity] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimRef | None = None


class PersistentVolume(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)


class TopologySelectorRequirement(Struct, rename="camel", gc=False):
    key: str = ""
    values: list[str] = []


class TopologySelectorTerm(Struct, rename="camel", gc=False):
    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClass(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologySelectorTerm] | None = None


class ObjectReference(Struct, rename="camel", gc=False):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Struct, rename="camel", gc=False):
    component: str = ""
    host: str = ""


class Event(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: EventSource = field(default_factory=EventSource)
    reporting_component: str = ""
    reporting_instance: str = ""


class LeaseSpec(Struct, rename="camel", gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class PodDisruptionBudgetSpec(Struct, rename="camel", gc=False):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudget(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)

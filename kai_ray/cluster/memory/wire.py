"""The types of built-in objects, so that the rules behind may trust what they look at.

As an API server does when it decodes: a number where text belongs is refused at its path before
anything else is asked. Only fields that defaults, rules or merges touch are named.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from kai_ray.api import core
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Resource

from .kinds import Served
from .meta import cause, invalid

Texts = dict[str, str]
Amounts = dict[str, str | int | float]
IntOrText = int | str


class _Meta(core.ObjectMeta, rename="camel", gc=False):
    managed_fields: list[dict[str, Any]] | None = None


class _EnvVar(Struct, rename="camel", gc=False):
    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class _Mount(Struct, rename="camel", gc=False):
    name: str = ""
    mount_path: str = ""


class _Port(Struct, rename="camel", gc=False):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""


class _Named(Struct, rename="camel", gc=False):
    name: str = ""


class _Resources(Struct, rename="camel", gc=False):
    requests: Amounts | None = None
    limits: Amounts | None = None
    claims: list[_Named] | None = None


class _Container(Struct, rename="camel", gc=False):
    name: str = ""
    image: str = ""
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    ports: list[_Port] | None = None
    resources: _Resources | None = None
    volume_mounts: list[_Mount] | None = None
    restart_policy: str | None = None
    working_dir: str | None = None


class _HostAlias(Struct, rename="camel", gc=False):
    ip: str = ""


class _PodSpec(Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Named] | None = None
    volumes: list[core.Volume] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: Texts | None = None
    affinity: core.Affinity | None = None
    tolerations: list[core.Toleration] | None = None
    topology_spread_constraints: list[core.TopologySpreadConstraint] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str = ""
    service_account_name: str = ""
    runtime_class_name: str | None = None
    overhead: Amounts | None = None
    resources: _Resources | None = None
    resource_claims: list[core.PodResourceClaim] | None = None
    scheduling_gates: list[_Named] | None = None
    image_pull_secrets: list[_Named] | None = None
    host_aliases: list[_HostAlias] | None = None
    host_network: bool | None = None
    security_context: dict[str, Any] | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class _Condition(Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(Struct, rename="camel", gc=False):
    """Of any kind: what is read wherever it occurs."""

    phase: str = ""
    conditions: list[_Condition] | None = None
    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    addresses: list[dict[str, str]] | None = None


class _Template(Struct, rename="camel", gc=False):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None


class _Strategy(Struct, rename="camel", gc=False):
    type: str | None = None
    rolling_update: dict[str, IntOrText] | None = None


class _WorkloadSpec(Struct, rename="camel", gc=False):
    """Of Deployment, ReplicaSet, StatefulSet, DaemonSet and Job."""

    replicas: int | None = None
    selector: core.LabelSelector | None = None
    template: _Template | None = None
    strategy: _Strategy | None = None
    update_strategy: _Strategy | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    suspend: bool | None = None
    manual_selector: bool | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    volume_claim_templates: list[dict[str, Any]] | None = None


class _JobTemplate(Struct, rename="camel", gc=False):
    metadata: _Meta | None = None
    spec: _WorkloadSpec | None = None


class _CronJobSpec(Struct, rename="camel", gc=False):
    schedule: str = ""
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: _JobTemplate | None = None


class _ControllerSpec(Struct, rename="camel", gc=False):
    replicas: int | None = None
    selector: Texts | None = None
    template: _Template | None = None


class _ServicePort(Struct, rename="camel", gc=False):
    name: str = ""
    port: int = 0
    target_port: IntOrText | None = None
    protocol: str = ""


class _ServiceSpec(Struct, rename="camel", gc=False):
    type: str = ""
    ports: list[_ServicePort] | None = None
    selector: Texts | None = None
    cluster_ip: str | None = field(default=None, name="clusterIP")


class _NodeSpec(Struct, rename="camel", gc=False):
    taints: list[core.Taint] | None = None
    unschedulable: bool | None = None
    pod_cidrs: list[str] | None = field(default=None, name="podCIDRs")


class _ClaimSpec(Struct, rename="camel", gc=False):
    access_modes: list[str] | None = None
    resources: _Resources | None = None
    storage_class_name: str | None = None
    volume_name: str = ""


class _VolumeSpec(Struct, rename="camel", gc=False):
    access_modes: list[str] | None = None
    capacity: Amounts | None = None
    storage_class_name: str | None = None
    node_affinity: core.VolumeNodeAffinity | None = None


class _BudgetSpec(Struct, rename="camel", gc=False):
    min_available: IntOrText | None = None
    max_unavailable: IntOrText | None = None
    selector: core.LabelSelector | None = None


class _NamespaceSpec(Struct, rename="camel", gc=False):
    finalizers: list[str] | None = None


class _Props(Struct, gc=False):
    """One node of a structural schema."""

    type: str = ""
    format: str | None = None
    properties: dict[str, _Props] | None = None
    items: _Props | None = None
    additional: _Props | bool | None = field(default=None, name="additionalProperties")
    required: list[str] | None = None
    enum: list[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: float | None = field(default=None, name="multipleOf")
    min_length: int | None = field(default=None, name="minLength")
    max_length: int | None = field(default=None, name="maxLength")
    min_items: int | None = field(default=None, name="minItems")
    max_items: int | None = field(default=None, name="maxItems")
    min_properties: int | None = field(default=None, name="minProperties")
    max_properties: int | None = field(default=None, name="maxProperties")
    all_of: list[_Props] | None = field(default=None, name="allOf")
    any_of: list[_Props] | None = field(default=None, name="anyOf")
    one_of: list[_Props] | None = field(default=None, name="oneOf")
    none_of: _Props | None = field(default=None, name="not")
    list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    list_keys: list[str] | None = field(default=None, name="x-kubernetes-list-map-keys")
    map_type: str | None = field(default=None, name="x-kubernetes-map-type")
    rules: list[_Rule] | None = field(default=None, name="x-kubernetes-validations")


class _Rule(Struct, rename="camel", gc=False):
    rule: str
    message: str | None = None
    message_expression: str | None = None
    field_path: str | None = None
    reason: str | None = None
    optional_old_self: bool | None = None


class _Validation(Struct, gc=False):
    openapi: _Props | None = field(default=None, name="openAPIV3Schema")


class _Scale(Struct, rename="camel", gc=False):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | None = None


class _Subresources(Struct, rename="camel", gc=False):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _Column(Struct, rename="camel", gc=False):
    name: str
    type: str
    json_path: str
    priority: int = 0


class _Selectable(Struct, rename="camel", gc=False):
    json_path: str


class _Version(Struct, rename="camel", gc=False):
    name: str
    served: bool = False
    storage: bool = False
    schema: _Validation | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_Selectable] | None = None


class _Names(Struct, rename="camel", gc=False):
    plural: str = ""
    kind: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _DefinitionSpec(Struct, rename="camel", gc=False):
    group: str = ""
    scope: str = ""
    names: _Names | None = None
    versions: list[_Version] | None = None


class _Any(Struct, rename="camel", gc=False):
    metadata: _Meta
    status: _Status | None = None


class _Custom(Struct, rename="camel", gc=False):
    metadata: _Meta


class _Pod(_Any, rename="camel", gc=False):
    spec: _PodSpec | None = None


class _Workload(_Any, rename="camel", gc=False):
    spec: _WorkloadSpec | None = None


class _CronJob(_Any, rename="camel", gc=False):
    spec: _CronJobSpec | None = None


class _Controller(_Any, rename="camel", gc=False):
    spec: _ControllerSpec | None = None


class _Service(_Any, rename="camel", gc=False):
    spec: _ServiceSpec | None = None


class _Node(_Any, rename="camel", gc=False):
    spec: _NodeSpec | None = None


class _Claim(_Any, rename="camel", gc=False):
    spec: _ClaimSpec | None = None


class _Volume(_Any, rename="camel", gc=False):
    spec: _VolumeSpec | None = None


class _Budget(_Any, rename="camel", gc=False):
    spec: _BudgetSpec | None = None


class _Namespace(_Any, rename="camel", gc=False):
    spec: _NamespaceSpec | None = None


class _Definition(_Any, rename="camel", gc=False):
    spec: _DefinitionSpec | None = None


class _ConfigMap(_Any, rename="camel", gc=False):
    data: Texts | None = None
    binary_data: Texts | None = None
    immutable: bool | None = None


class _Secret(_Any, rename="camel", gc=False):
    data: Texts | None = None
    string_data: Texts | None = None
    type: str = ""
    immutable: bool | None = None


class _Account(_Any, rename="camel", gc=False):
    secrets: list[_Named] | None = None


class _PriorityClass(_Any, rename="camel", gc=False):
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class _Event(_Any, rename="camel", gc=False):
    involved_object: core.ObjectReference | None = None
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    reporting_component: str = ""
    source: core.EventSource | None = None


class _Lease(_Any, rename="camel", gc=False):
    spec: core.LeaseSpec | None = None


class _StorageClass(_Any, rename="camel", gc=False):
    provisioner: str = ""
    volume_binding_mode: str | None = None


_TYPES: dict[Resource, type[Struct]] = {
    r.POD: _Pod,
    r.NODE: _Node,
    r.NAMESPACE: _Namespace,
    r.SERVICE: _Service,
    r.SERVICE_ACCOUNT: _Account,
    r.CONFIG_MAP: _ConfigMap,
    r.SECRET: _Secret,
    r.PVC: _Claim,
    r.PV: _Volume,
    r.EVENT: _Event,
    r.LEASE: _Lease,
    r.PDB: _Budget,
    r.CRD: _Definition,
    r.PRIORITY_CLASS: _PriorityClass,
    r.STORAGE_CLASS: _StorageClass,
    r.REPLICATION_CONTROLLER: _Controller,
    r.JOB: _Workload,
    r.CRON_JOB: _CronJob,
    r.DEPLOYMENT: _Workload,
    r.REPLICA_SET: _Workload,
    r.STATEFUL_SET: _Workload,
    r.DAEMON_SET: _Workload,
}
_AT = re.compile(r" - at `(?:key in )?`?\$\.?([^`]*)`")


def check(served: Served, obj: Object) -> None:
    """Raises Invalid for the first field whose value has the wrong type."""
    wanted = _Custom if served.schema is not None else _TYPES.get(served.resource, _Any)
    try:
        msgspec.convert(obj, wanted)
    except msgspec.ValidationError as error:
        text = str(error)
        at = _AT.search(text)
        path = at[1] if at else ""
        words = text[: at.start()] if at else text
        mend = ": quote it" if words.startswith("Expected `str`") else ""
        name = obj.get("metadata", {}).get("name") if isinstance(obj.get("metadata"), dict) else ""
        raise invalid(
            served,
            str(name or "")[:80],
            [cause(path, f"{words.replace('`', '')}{mend}", "FieldValueTypeInvalid")],
        ) from None

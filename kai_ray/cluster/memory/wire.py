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
from .wire_definitions import DefinitionSpec
from .wire_pods import Amounts, Meta, Named, PodSpec, Resources, Template, Texts

IntOrText = int | str


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


class _Strategy(Struct, rename="camel", gc=False):
    type: str | None = None
    rolling_update: dict[str, IntOrText] | None = None


class _WorkloadSpec(Struct, rename="camel", gc=False):
    """Of Deployment, ReplicaSet, StatefulSet, DaemonSet and Job."""

    replicas: int | None = None
    selector: core.LabelSelector | None = None
    template: Template | None = None
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
    metadata: Meta | None = None
    spec: _WorkloadSpec | None = None


class _CronJobSpec(Struct, rename="camel", gc=False):
    schedule: str = ""
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: _JobTemplate | None = None


class _ControllerSpec(Struct, rename="camel", gc=False):
    replicas: int | None = None
    selector: Texts | None = None
    template: Template | None = None


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
    resources: Resources | None = None
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


class _Any(Struct, rename="camel", gc=False):
    metadata: Meta
    status: _Status | None = None


class _Custom(Struct, rename="camel", gc=False):
    metadata: Meta


class _Pod(_Any, rename="camel", gc=False):
    spec: PodSpec | None = None


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
    spec: DefinitionSpec | None = None


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
    secrets: list[Named] | None = None


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

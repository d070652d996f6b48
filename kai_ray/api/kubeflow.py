"""Kubeflow's training kinds, Trainer's, JobSet and LeaderWorkerSet, as far as we read them.

Fields we do not name are kept as they are.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from .core import Condition, ObjectMeta, PodTemplate
from .ray import Int32

Count = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})]


class SchedulingPolicy(Struct, rename="camel", gc=False):
    min_available: Count | None = None
    queue: str = ""
    priority_class: str = ""
    schedule_timeout_seconds: Int32 | None = None


class RunPolicy(Struct, rename="camel", gc=False):
    suspend: bool | None = None
    clean_pod_policy: str | None = None
    backoff_limit: Int32 | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: Int32 | None = None
    scheduling_policy: SchedulingPolicy | None = None


class ReplicaSpec(Struct, rename="camel", gc=False):
    """An absent `replicas` is 1."""

    replicas: Count | None = None
    restart_policy: str = ""
    template: PodTemplate = field(default_factory=PodTemplate)


class ElasticPolicy(Struct, rename="camel", gc=False):
    min_replicas: Count | None = None
    max_replicas: Count | None = None


class JobStatus(Struct, rename="camel", gc=False):
    """Of every v1 training job."""

    conditions: list[Condition] | None = None
    start_time: str | None = None
    completion_time: str | None = None


class PyTorchJobSpec(Struct, rename="camel", gc=False):
    pytorch_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None


class PyTorchJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: PyTorchJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class TFJobSpec(Struct, rename="camel", gc=False):
    tf_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None


class TFJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: TFJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class MPIJobSpec(Struct, rename="camel", gc=False):
    mpi_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None
    slots_per_worker: Int32 | None = None


class MPIJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: MPIJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class XGBoostJobSpec(Struct, rename="camel", gc=False):
    xgb_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None


class XGBoostJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: XGBoostJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class PaddleJobSpec(Struct, rename="camel", gc=False):
    paddle_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy | None = None


class PaddleJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: PaddleJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class JAXJobSpec(Struct, rename="camel", gc=False):
    jax_replica_specs: dict[str, ReplicaSpec]
    run_policy: RunPolicy | None = None


class JAXJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: JAXJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class RuntimeRef(Struct, rename="camel", gc=False):
    name: str
    kind: Annotated[str, Meta(extra_json_schema={"x-default": "ClusterTrainingRuntime"})] = (
        "ClusterTrainingRuntime"
    )
    api_group: Annotated[str, Meta(extra_json_schema={"x-default": "trainer.kubeflow.org"})] = (
        "trainer.kubeflow.org"
    )


class Trainer(Struct, rename="camel", gc=False):
    num_nodes: Count | None = None


class TrainJobSpec(Struct, rename="camel", gc=False):
    runtime_ref: RuntimeRef
    trainer: Trainer | None = None
    suspend: Annotated[bool, Meta(extra_json_schema={"x-default": False})] = False
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TrainJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: TrainJobSpec
    status: JobStatus = field(default_factory=JobStatus)


class JobTemplateSpec(Struct, rename="camel", gc=False):
    """Of a batch Job."""

    parallelism: Count | None = None
    completions: Count | None = None
    backoff_limit: Count | None = None
    suspend: bool | None = None
    template: PodTemplate = field(default_factory=PodTemplate)


class JobTemplate(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobTemplateSpec = field(default_factory=JobTemplateSpec)


class DependsOn(Struct, rename="camel", gc=False):
    """`status` is Ready or Complete."""

    name: str
    status: str = "Ready"


class ReplicatedJob(Struct, rename="camel", gc=False):
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    replicas: Annotated[Count, Meta(extra_json_schema={"x-default": 1})] = 1
    template: JobTemplate = field(default_factory=JobTemplate)
    depends_on: list[DependsOn] | None = None


class StartupPolicy(Struct, rename="camel", gc=False):
    startup_policy_order: str = "AnyOrder"


class JobSetSpec(Struct, rename="camel", gc=False):
    replicated_jobs: Annotated[list[ReplicatedJob], Meta(max_length=1000)] | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None


class JobSetStatus(Struct, rename="camel", gc=False):
    conditions: list[Condition] | None = None
    restarts: int = 0
    terminal_state: str = ""


class JobSet(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: JobSetSpec
    status: JobSetStatus = field(default_factory=JobSetStatus)


class TrainingRuntimeTemplate(Struct, rename="camel", gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSetSpec = field(default_factory=JobSetSpec)


class MLPolicy(Struct, rename="camel", gc=False):
    num_nodes: Count | None = None


class TrainingRuntimeSpec(Struct, rename="camel", gc=False):
    template: TrainingRuntimeTemplate = field(default_factory=TrainingRuntimeTemplate)
    ml_policy: MLPolicy | None = None


class TrainingRuntime(Struct, rename="camel", gc=False):
    """Also ClusterTrainingRuntime."""

    metadata: ObjectMeta
    spec: TrainingRuntimeSpec


class LeaderWorkerTemplate(Struct, rename="camel", gc=False):
    size: Annotated[Count, Meta(extra_json_schema={"x-default": 1})] = 1
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate = field(default_factory=PodTemplate)


class LeaderWorkerSetSpec(Struct, rename="camel", gc=False):
    leader_worker_template: LeaderWorkerTemplate
    replicas: Annotated[Count, Meta(extra_json_schema={"x-default": 1})] = 1
    startup_policy: str = "LeaderCreated"


class LeaderWorkerSetStatus(Struct, rename="camel", gc=False):
    conditions: list[Condition] | None = None
    replicas: int = 0
    ready_replicas: int = 0


class LeaderWorkerSet(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: LeaderWorkerSetSpec
    status: LeaderWorkerSetStatus = field(default_factory=LeaderWorkerSetStatus)

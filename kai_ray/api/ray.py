"""KubeRay's kinds (ray.io/v1), as far as we read them. Other fields are kept as they are."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from .core import Condition, ObjectMeta, PodTemplate, Quantity

_INT32_MAX = 2**31 - 1


def _count(default: int) -> Any:
    """Schema parts of a count that the CRD fills in when it is absent."""
    return Meta(ge=0, le=_INT32_MAX, extra_json_schema={"format": "int32", "x-default": default})


Replicas = Annotated[int, _count(0)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=_INT32_MAX, extra_json_schema={"format": "int32"})]


class HeadGroupSpec(Struct, rename="camel", gc=False):
    template: PodTemplate = field(default_factory=PodTemplate)
    ray_start_params: dict[str, str] | None = None
    resources: dict[str, str] | None = None


class WorkerGroupSpec(Struct, rename="camel", gc=False):
    """`replicas` counts replicas of `numOfHosts` pods each."""

    group_name: Annotated[str, Meta(min_length=1, max_length=253)] = "worker-group"
    replicas: Replicas = 0
    min_replicas: Replicas = 0
    max_replicas: Annotated[int, _count(_INT32_MAX)] = _INT32_MAX
    num_of_hosts: Annotated[
        int,
        Meta(ge=1, le=_INT32_MAX, extra_json_schema={"format": "int32", "x-default": 1}),
    ] = 1
    suspend: bool | None = None
    idle_timeout_seconds: Int32 | None = None
    template: PodTemplate = field(default_factory=PodTemplate)
    ray_start_params: dict[str, str] | None = None
    resources: dict[str, str] | None = None


class RayClusterSpec(Struct, rename="camel", gc=False):
    head_group_spec: HeadGroupSpec = field(default_factory=HeadGroupSpec)
    worker_group_specs: Annotated[list[WorkerGroupSpec], Meta(max_length=10_000)] | None = None
    enable_in_tree_autoscaling: bool | None = None
    suspend: bool | None = None
    ray_version: str = ""


class RayClusterStatus(Struct, rename="camel", gc=False):
    state: str = ""
    conditions: list[Condition] | None = None
    desired_worker_replicas: int = 0
    available_worker_replicas: int = 0
    ready_worker_replicas: int = 0
    desired_gpu: Quantity | None = field(default=None, name="desiredGPU")


class RayCluster(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: RayClusterSpec
    status: RayClusterStatus = field(default_factory=RayClusterStatus)


class RayJobSpec(Struct, rename="camel", gc=False):
    entrypoint: str = ""
    ray_cluster_spec: RayClusterSpec | None = None
    cluster_selector: dict[str, str] | None = None
    submission_mode: Annotated[str, Meta(extra_json_schema={"x-default": "K8sJobMode"})] = (
        "K8sJobMode"
    )
    submitter_pod_template: PodTemplate | None = None
    suspend: bool | None = None
    shutdown_after_job_finishes: bool | None = None
    ttl_seconds_after_finished: Annotated[Int32, Meta(extra_json_schema={"x-default": 0})] = 0
    active_deadline_seconds: Int32 | None = None
    backoff_limit: Annotated[Int32, Meta(extra_json_schema={"x-default": 0})] = 0


class RayJobStatus(Struct, rename="camel", gc=False):
    job_id: str = ""
    job_status: str = ""
    job_deployment_status: str = ""
    ray_cluster_name: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    end_time: str | None = None


class RayJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: RayJobSpec
    status: RayJobStatus = field(default_factory=RayJobStatus)


class RayServiceSpec(Struct, rename="camel", gc=False):
    ray_cluster_config: RayClusterSpec = field(default_factory=RayClusterSpec)
    serve_config_v2: str = field(default="", name="serveConfigV2")
    suspend: bool | None = None


class RayServiceClusterStatus(Struct, rename="camel", gc=False):
    ray_cluster_name: str = ""


class RayServiceStatus(Struct, rename="camel", gc=False):
    service_status: str = ""
    conditions: list[Condition] | None = None
    num_serve_endpoints: int = 0
    active_service_status: RayServiceClusterStatus | None = None
    pending_service_status: RayServiceClusterStatus | None = None


class RayService(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: RayServiceSpec
    status: RayServiceStatus = field(default_factory=RayServiceStatus)


class RayCronJobSpec(Struct, rename="camel", gc=False):
    schedule: Annotated[str, Meta(max_length=256)] = ""
    job_template: RayJobSpec = field(default_factory=RayJobSpec)
    suspend: bool | None = None


class RayCronJobStatus(Struct, rename="camel", gc=False):
    last_schedule_time: str | None = None


class RayCronJob(Struct, rename="camel", gc=False):
    metadata: ObjectMeta
    spec: RayCronJobSpec
    status: RayCronJobStatus = field(default_factory=RayCronJobStatus)

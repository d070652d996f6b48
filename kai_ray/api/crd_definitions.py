"""What the CRDs say besides their schemas: names, columns, scale, CEL rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import gpu_state, kai, kubeflow, ray

Json = dict[str, Any]
Column = tuple[str, str, str] | tuple[str, str, str, int]

_AGE: Column = ("Age", "date", ".metadata.creationTimestamp")
_STATE: Column = ("State", "string", ".status.conditions[-1:].type")
_AMOUNT = "-1 is unlimited; other negative values have no meaning"


def _amount_rule(name: str) -> Json:
    return {
        "rule": f"!has(self.{name}) || self.{name} == -1.0 || self.{name} >= 0.0",
        "message": f"{name} must be 0 or more, or -1: {_AMOUNT}",
        "fieldPath": f".{name}",
    }


#: CEL rules by struct. Only rules whose cost is linear in the object: the tree of subgroups and of
#: queues is checked by admission.
RULES: dict[type, list[Json]] = {
    kai.Queue: [
        {
            "rule": "!has(self.spec.parentQueue) || self.spec.parentQueue != self.metadata.name",
            "message": "parentQueue must not be the queue itself: name another queue or remove it",
            "fieldPath": ".spec.parentQueue",
        }
    ],
    kai.QueueResource: [
        _amount_rule("quota"),
        _amount_rule("limit"),
        _amount_rule("overQuotaWeight"),
        {
            "rule": "!has(self.quota) || !has(self.limit) || self.limit == -1.0 "
            "|| self.quota == -1.0 || self.quota <= self.limit",
            "message": "quota must not exceed limit: raise limit (-1 is unlimited) or lower quota",
        },
    ],
    kai.PodGroupSpec: [
        {
            "rule": "!(has(self.minMember) && has(self.minSubGroup))",
            "message": "minMember and minSubGroup exclude each other: remove one of them",
        }
    ],
    kai.SubGroup: [
        {
            "rule": "!(has(self.minMember) && has(self.minSubGroup))",
            "message": "minMember and minSubGroup exclude each other: a leaf has minMember, a "
            "subgroup with children minSubGroup",
        },
        {
            "rule": "!has(self.parent) || self.parent != self.name",
            "message": "parent must not be the subgroup itself: name another one or remove it",
        },
    ],
    kai.TopologySpec: [
        {
            "rule": "self.levels.map(l, l.nodeLabel) == oldSelf.levels.map(l, l.nodeLabel)",
            "message": "the node labels of the levels are immutable: create another Topology",
        },
        {
            "rule": "self.levels.all(l, self.levels.exists_one(o, o.nodeLabel == l.nodeLabel))",
            "message": "a nodeLabel is there twice: give each level its own name",
            "fieldPath": ".levels",
        },
        {
            "rule": "!self.levels.exists(l, l.nodeLabel == 'kubernetes.io/hostname') || "
            "self.levels[size(self.levels) - 1].nodeLabel == 'kubernetes.io/hostname'",
            "message": "kubernetes.io/hostname may only be the last level: move it there",
            "fieldPath": ".levels",
        },
        {
            "rule": "self.levels.all(l, !has(l.alias) || "
            "self.levels.exists_one(o, has(o.alias) && o.alias == l.alias))",
            "message": "an alias is there twice: give each level its own name",
            "fieldPath": ".levels",
        },
        {
            "rule": "self.levels.all(l, !has(l.alias) || "
            "!self.levels.exists(o, o.nodeLabel == l.alias))",
            "message": "an alias is the nodeLabel of a level: give it a name of its own",
            "fieldPath": ".levels",
        },
    ],
}
#: Fields that must be given, although the struct can do without.
REQUIRED: dict[type, list[str]] = {kai.QueueSpec: ["resources"]}


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CRD says besides its schema."""

    type: type
    group: str
    version: str
    plural: str
    kind: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (_AGE,)
    selectable: tuple[str, ...] = ()
    status: bool = True
    scale: Json | None = None
    #: Keep fields that the structs do not name.
    open: bool = False


_GPU = ".status.allocated.nvidia\\.com/gpu"
OWN = (
    Definition(
        kai.Queue,
        "scheduling.run.ai",
        "v2",
        "queues",
        namespaced=False,
        short_names=("kq",),
        categories=("kai",),
        columns=(
            ("Parent", "string", ".spec.parentQueue"),
            ("Quota", "number", ".spec.resources.gpu.quota"),
            ("Allocated", "string", _GPU),
            ("FairShare", "string", ".status.fairShare.nvidia\\.com/gpu"),
            ("Pending", "integer", ".status.pending"),
            ("Priority", "integer", ".spec.priority", 1),
            ("DisplayName", "string", ".spec.displayName", 1),
            _AGE,
        ),
        selectable=(".spec.parentQueue",),
    ),
    Definition(
        kai.PodGroup,
        "scheduling.run.ai",
        "v2alpha2",
        "podgroups",
        short_names=("pg",),
        categories=("kai",),
        columns=(
            ("Queue", "string", ".spec.queue"),
            ("Min", "integer", ".spec.minMember"),
            ("Running", "integer", ".status.running"),
            ("Phase", "string", ".status.phase"),
            ("Reason", "string", '.status.conditions[?(@.type=="Scheduled")].reason'),
            ("Priority-Class", "string", ".spec.priorityClassName", 1),
            _AGE,
        ),
        selectable=(".spec.queue",),
    ),
    Definition(
        kai.BindRequest,
        "scheduling.run.ai",
        "v1alpha2",
        "bindrequests",
        short_names=("br",),
        categories=("kai",),
        columns=(
            ("Pod", "string", ".spec.podName"),
            ("Node", "string", ".spec.selectedNode"),
            ("Phase", "string", ".status.phase"),
            ("Attempts", "integer", ".status.failedAttempts"),
            _AGE,
        ),
        selectable=(".spec.podName", ".spec.selectedNode"),
    ),
    Definition(
        kai.Topology,
        "kai.scheduler",
        "v1alpha1",
        "topologies",
        namespaced=False,
        short_names=("kaitopo",),
        categories=("kai",),
        columns=(("Levels", "string", ".spec.levels[*].nodeLabel"), _AGE),
        status=False,
    ),
    Definition(
        kai.SchedulingShard,
        "kai.scheduler",
        "v1",
        "schedulingshards",
        namespaced=False,
        categories=("kai",),
        columns=(("Partition", "string", ".spec.partitionLabelValue"), _AGE),
    ),
    Definition(
        kai.Config,
        "kai.scheduler",
        "v1",
        "configs",
        namespaced=False,
        categories=("kai",),
        open=True,
    ),
    Definition(
        gpu_state.GPUNodeState,
        "kai.scheduler",
        "v1alpha1",
        "gpunodestates",
        namespaced=False,
        short_names=("gpus",),
        categories=("kai",),
        columns=(
            ("Driver", "string", ".status.driver"),
            ("Observed", "date", ".status.observedAt"),
            ("Problem", "string", ".status.problem"),
            _AGE,
        ),
    ),
)


def _kubeflow(struct: type, plural: str, scale: str = "") -> Definition:
    paths = {
        "specReplicasPath": f".spec.{scale}.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
    return Definition(
        struct,
        "kubeflow.org",
        "v1",
        plural,
        columns=(_STATE, _AGE),
        scale=paths if scale else None,
        open=True,
    )


def _trainer(struct: type, plural: str, kind: str, *, namespaced: bool = True) -> Definition:
    status = struct is kubeflow.TrainJob
    return Definition(
        struct,
        "trainer.kubeflow.org",
        "v1alpha1",
        plural,
        kind=kind,
        namespaced=namespaced,
        columns=(_STATE, _AGE) if status else (_AGE,),
        status=status,
        open=True,
    )


_RAY_CLUSTER_COLUMNS: tuple[Column, ...] = (
    ("desired workers", "integer", ".status.desiredWorkerReplicas"),
    ("available workers", "integer", ".status.availableWorkerReplicas"),
    ("cpus", "string", ".status.desiredCPU"),
    ("memory", "string", ".status.desiredMemory"),
    ("gpus", "string", ".status.desiredGPU"),
    ("status", "string", ".status.state"),
    ("age", "date", ".metadata.creationTimestamp"),
)
_RAY_JOB_COLUMNS: tuple[Column, ...] = (
    ("job status", "string", ".status.jobStatus"),
    ("deployment status", "string", ".status.jobDeploymentStatus"),
    ("ray cluster name", "string", ".status.rayClusterName"),
    ("start time", "string", ".status.startTime"),
    ("end time", "string", ".status.endTime"),
    ("age", "date", ".metadata.creationTimestamp"),
)


def _ray(struct: type, plural: str, columns: tuple[Column, ...]) -> Definition:
    return Definition(
        struct, "ray.io", "v1", plural, categories=("all",), columns=columns, open=True
    )


WORKLOADS = (
    _ray(ray.RayCluster, "rayclusters", _RAY_CLUSTER_COLUMNS),
    _ray(ray.RayJob, "rayjobs", _RAY_JOB_COLUMNS),
    _ray(
        ray.RayService,
        "rayservices",
        (
            ("service status", "string", ".status.serviceStatus"),
            ("num serve endpoints", "integer", ".status.numServeEndpoints"),
            ("age", "date", ".metadata.creationTimestamp"),
        ),
    ),
    _ray(
        ray.RayCronJob,
        "raycronjobs",
        (
            ("schedule", "string", ".spec.schedule"),
            ("last schedule", "date", ".status.lastScheduleTime"),
            ("suspend", "boolean", ".spec.suspend"),
            ("age", "date", ".metadata.creationTimestamp"),
        ),
    ),
    _kubeflow(kubeflow.PyTorchJob, "pytorchjobs", "pytorchReplicaSpecs"),
    _kubeflow(kubeflow.TFJob, "tfjobs", "tfReplicaSpecs"),
    _kubeflow(kubeflow.MPIJob, "mpijobs"),
    _kubeflow(kubeflow.XGBoostJob, "xgboostjobs", "xgbReplicaSpecs"),
    _kubeflow(kubeflow.PaddleJob, "paddlejobs", "paddleReplicaSpecs"),
    _kubeflow(kubeflow.JAXJob, "jaxjobs"),
    _trainer(kubeflow.TrainJob, "trainjobs", "TrainJob"),
    _trainer(kubeflow.TrainingRuntime, "trainingruntimes", "TrainingRuntime"),
    _trainer(
        kubeflow.TrainingRuntime,
        "clustertrainingruntimes",
        "ClusterTrainingRuntime",
        namespaced=False,
    ),
    Definition(
        kubeflow.JobSet,
        "jobset.x-k8s.io",
        "v1alpha2",
        "jobsets",
        columns=(
            ("TerminalState", "string", ".status.terminalState"),
            ("Restarts", "integer", ".status.restarts"),
            ("Completed", "string", '.status.conditions[?(@.type=="Completed")].status'),
            ("Suspended", "boolean", ".spec.suspend"),
            _AGE,
        ),
        open=True,
    ),
    Definition(
        kubeflow.LeaderWorkerSet,
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
        short_names=("lws",),
        columns=(
            ("Ready", "integer", ".status.readyReplicas"),
            ("Desired", "integer", ".spec.replicas"),
            _AGE,
        ),
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.hpaPodSelector",
        },
        open=True,
    ),
)

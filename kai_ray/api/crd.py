"""CustomResourceDefinitions generated from the structs.

`crds()` are KAI's own kinds, with bounds, patterns and CEL rules. `workload_crds()` are the kinds
of Ray, Kubeflow and JobSet for the embedded cluster: what we read is typed, all else is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from . import kai, kubeflow, ray
from .core import ObjectMeta, PodTemplate

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
            "message": "each level needs a nodeLabel of its own",
        },
        {
            "rule": "!self.levels.exists(l, l.nodeLabel == 'kubernetes.io/hostname') || "
            "self.levels[size(self.levels) - 1].nodeLabel == 'kubernetes.io/hostname'",
            "message": "kubernetes.io/hostname may only be the last level",
        },
        {
            "rule": "self.levels.all(l, !has(l.alias) || "
            "self.levels.exists_one(o, has(o.alias) && o.alias == l.alias))",
            "message": "each alias may name only one level",
        },
        {
            "rule": "self.levels.all(l, !has(l.alias) || "
            "!self.levels.exists(o, o.nodeLabel == l.alias))",
            "message": "an alias must differ from every nodeLabel",
        },
    ],
}
_LIST_KEYS = {
    "conditions": ["type"],
    "subGroups": ["name"],
    "workerGroupSpecs": ["groupName"],
    "replicatedJobs": ["name"],
}


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
_OWN = (
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


_WORKLOADS = (
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


def crds() -> list[Json]:
    """Manifests of KAI's own kinds."""
    return [_manifest(d) for d in _OWN]


def workload_crds() -> list[Json]:
    """Manifests of the workload kinds that the stand-in operators serve."""
    return [_manifest(d) for d in _WORKLOADS]


def _manifest(d: Definition) -> Json:
    kind = d.kind or d.type.__name__
    names: Json = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": d.plural,
        "singular": kind.lower(),
    }
    if d.short_names:
        names["shortNames"] = list(d.short_names)
    if d.categories:
        names["categories"] = list(d.categories)
    version: Json = {
        "name": d.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(d.type, keep_unknown=d.open)},
        "additionalPrinterColumns": [_column(c) for c in d.columns],
    }
    if d.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in d.selectable]
    subresources: Json = {"status": {}} if d.status else {}
    if d.scale:
        subresources["scale"] = d.scale
    if subresources:
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{d.plural}.{d.group}",
            "labels": {"app.kubernetes.io/part-of": "kai-ray"},
        },
        "spec": {
            "group": d.group,
            "names": names,
            "scope": "Namespaced" if d.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> Json:
    name, kind, path, *priority = column
    return {"name": name, "type": kind, "jsonPath": path} | (
        {"priority": priority[0]} if priority else {}
    )


def schema_of(struct: type, *, keep_unknown: bool = False) -> Json:
    """The structural OpenAPI v3 schema of a whole object."""
    (ref,), components = msgspec.json.schema_components((struct,), ref_template="{name}")
    return _Inliner(components, struct, keep_unknown).root(ref["$ref"])


class _Inliner:
    """Turns JSON schema components into one structural schema without references."""

    def __init__(self, components: dict[str, Json], struct: type, keep_unknown: bool) -> None:
        self._components = components
        self._keep = keep_unknown
        self._rules = {t.__name__: rules for t, rules in RULES.items()}

    def root(self, name: str) -> Json:
        schema = self._object(self._components[name], name)
        schema["properties"] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
        } | schema["properties"]
        schema["required"] = ["spec"]
        schema.pop("x-kubernetes-preserve-unknown-fields", None)
        return schema

    def _node(self, node: Json, field: str) -> Json:
        if "$ref" in node:
            name = node["$ref"]
            described = {k: node[k] for k in ("description",) if k in node}
            return self._named(name) | described
        out = {k: v for k, v in node.items() if k not in ("title", "default", "anyOf", "x-default")}
        if "x-default" in node:
            out["default"] = node["x-default"]
        if "anyOf" in node:
            return self._union(node["anyOf"], field) | out
        if "exclusiveMinimum" in out:
            out |= {"minimum": out["exclusiveMinimum"], "exclusiveMinimum": True}
        if "enum" in out:
            out.setdefault("type", "string")
        if out.get("type") == "array":
            out["items"] = self._node(cast(Json, out.get("items") or {}), "")
            if keys := _LIST_KEYS.get(field):
                out |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
                self._require(out["items"], keys)
        if out.get("type") == "object":
            out = self._object(out, "")
        if not set(out) - {"description"}:
            out["x-kubernetes-preserve-unknown-fields"] = True
        return out

    def _require(self, item: Json, keys: list[str]) -> None:
        """The keys of a list map must be required or have a default."""
        required = [
            *item.get("required", ()),
            *(k for k in keys if k not in item.get("required", ())),
        ]
        if item.get("properties"):
            item["required"] = required

    def _union(self, parts: list[Json], field: str) -> Json:
        some = [p for p in parts if p.get("type") != "null"]
        nullable: Json = {"nullable": True} if len(some) < len(parts) else {}
        kinds = {p.get("type") for p in some}
        if len(some) == 1:
            return self._node(some[0], field) | nullable
        if kinds <= {"string", "integer", "number"}:
            return {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            } | nullable
        raise TypeError(f"field {field!r}: a union of {sorted(map(str, kinds))} has no CRD schema")

    def _named(self, name: str) -> Json:
        if name == ObjectMeta.__name__:
            return {"type": "object"} | (
                {"x-kubernetes-preserve-unknown-fields": True} if self._keep else {}
            )
        if name == PodTemplate.__name__:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return self._object(self._components[name], name)

    def _object(self, node: Json, name: str) -> Json:
        out: Json = {"type": "object"}
        if "description" in node:
            out["description"] = " ".join(node["description"].split())
        extra = node.get("additionalProperties")
        properties: dict[str, Json] = node.get("properties") or {}
        if isinstance(extra, dict) and extra:
            out["additionalProperties"] = self._node(cast(Json, extra), "")
        elif not properties or self._keep:
            out["x-kubernetes-preserve-unknown-fields"] = True
        if properties:
            out["properties"] = {
                k: {"type": "object"} if k == "metadata" and name in _ROOTS else self._node(v, k)
                for k, v in properties.items()
            }
        if node.get("required"):
            out["required"] = [r for r in node["required"] if r != "metadata"]
            if not out["required"]:
                del out["required"]
        if rules := self._rules.get(name):
            out["x-kubernetes-validations"] = [dict(r) for r in rules]
        return out


_ROOTS = {d.type.__name__ for d in (*_OWN, *_WORKLOADS)}

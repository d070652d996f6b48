"""What the process may do on a cluster: RBAC rules, no wider than what the code does.

The chart ships these. No rule holds a wildcard, no Secret is readable but our own, and what is
written in our namespace alone is a Role there.
"""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.admission import webhooks
from kai_ray.admission.runtime_class import RUNTIME_CLASS
from kai_ray.api.crd_definitions import OWN
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.suspension import SUSPEND
from kai_ray.console.reviews import ACCESS_REVIEW, TOKEN_REVIEW
from kai_ray.podgrouper.controller import READ_TOO
from kai_ray.podgrouper.registry import RULES, WRAPPERS

READ = ("get", "list", "watch")
_RBAC = "rbac.authorization.k8s.io/v1"

#: Plurals of kinds with a rule of ours that `kai_ray.cluster.resources` does not list.
_PLURALS = {
    "AmlJob": "amljobs",
    "AppWrapper": "appwrappers",
    "DevWorkspace": "devworkspaces",
    "DistributedInferenceWorkload": "distributedinferenceworkloads",
    "DistributedWorkload": "distributedworkloads",
    "DynamoGraphDeployment": "dynamographdeployments",
    "InferenceService": "inferenceservices",
    "InferenceWorkload": "inferenceworkloads",
    "InteractiveWorkload": "interactiveworkloads",
    "Karta": "kartas",
    "Notebook": "notebooks",
    "PipelineRun": "pipelineruns",
    "PodCliqueSet": "podcliquesets",
    "PodGang": "podgangs",
    "PodGangSet": "podgangsets",
    "Revision": "revisions",
    "RunaiJob": "runaijobs",
    "SPOTRequest": "spotrequests",
    "ScheduledWorkflow": "scheduledworkflows",
    "SeldonDeployment": "seldondeployments",
    "Service": "services",
    "SparkApplication": "sparkapplications",
    "TaskRun": "taskruns",
    "TrainingWorkload": "trainingworkloads",
    "VirtualMachineInstance": "virtualmachineinstances",
    "Workflow": "workflows",
}
#: Read beside the kinds that have a rule.
_READ = (
    kinds.POD,
    kinds.NODE,
    kinds.NAMESPACE,
    kinds.PVC,
    kinds.PV,
    kinds.CONFIG_MAP,
    kinds.PRIORITY_CLASS,
    kinds.STORAGE_CLASS,
    kinds.PDB,
    kinds.CRD,
    kinds.QUEUE,
    kinds.POD_GROUP,
    kinds.BIND_REQUEST,
    kinds.TOPOLOGY,
    kinds.SCHEDULING_SHARD,
    kinds.KAI_CONFIG,
    kinds.GPU_NODE_STATE,
    kinds.RESOURCE_CLAIM,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_SLICE,
    kinds.DEVICE_CLASS,
    kinds.NODE_ZONES,
    kinds.TRAINING_RUNTIME,
    kinds.CLUSTER_TRAINING_RUNTIME,
)
#: (kind, subresource): verbs beside reading, and what for.
_WRITE: dict[tuple[Resource, str], tuple[str, ...]] = {
    (kinds.POD, ""): ("patch", "delete"),  # gang and grants of a pod; eviction
    (kinds.POD, "status"): ("patch",),  # why it waits, why it goes
    (kinds.POD, "binding"): ("create",),
    (kinds.EVENT, ""): ("get", "create", "patch"),
    (kinds.NODE, ""): ("patch",),  # quarantine
    (kinds.PVC, ""): ("patch",),  # the node that a volume is made for
    (kinds.CONFIG_MAP, ""): ("create", "update"),  # devices of a pod that shares GPUs
    (kinds.RESOURCE_CLAIM, ""): ("update",),  # the finalizer that keeps a claim in use
    (kinds.RESOURCE_CLAIM, "status"): ("update",),  # its devices, and for whom they are
    (kinds.RESOURCE_CLAIM, "binding"): ("update",),  # the same, since Kubernetes 1.36
    (kinds.QUEUE, ""): ("patch",),
    (kinds.QUEUE, "status"): ("patch",),
    (kinds.POD_GROUP, ""): ("create", "update", "patch", "delete"),
    (kinds.POD_GROUP, "status"): ("patch",),
    (kinds.BIND_REQUEST, ""): ("create", "update", "patch", "delete"),
    (kinds.BIND_REQUEST, "status"): ("patch",),
    (kinds.SCHEDULING_SHARD, "status"): ("patch",),
    (kinds.RAY_CLUSTER, ""): ("update",),  # surplus workers; sizes of what is elastic
    (kinds.PYTORCH_JOB, ""): ("update",),
    (kinds.JOB, ""): ("update",),
}
#: Workloads that are suspended, resumed, or ended as a whole.
_WORKLOADS = (*SUSPEND, kinds.LEADER_WORKER_SET, kinds.DEPLOYMENT, kinds.STATEFUL_SET)


def cluster_rules() -> list[Object]:
    """Rules of the ClusterRole."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for group, plural in (*((k.group, k.plural) for k in _READ), *_grouped()):
        verbs.setdefault((group, plural), set()).update(READ)
    for (kind, subresource), more in _WRITE.items():
        path = f"{kind.plural}/{subresource}" if subresource else kind.plural
        verbs.setdefault((kind.group, path), set()).update(more)
    for kind in _WORKLOADS:
        verbs.setdefault((kind.group, kind.plural), set()).update((*READ, "patch"))
    verbs.setdefault((kinds.RAY_JOB.group, f"{kinds.RAY_JOB.plural}/status"), set()).add("patch")
    verbs.setdefault((kinds.RAY_CLUSTER.group, kinds.RAY_CLUSTER.plural), set()).add("delete")
    return _merged(verbs)


def namespace_rules(lease: str = "kai-ray", secret: str = "kai-ray-webhook") -> list[Object]:
    """Rules of the Role in our own namespace: two objects, which the chart makes."""
    return [
        {
            "apiGroups": [kinds.LEASE.group],
            "resources": [kinds.LEASE.plural],
            "resourceNames": [lease],
            "verbs": ["get", "update"],
        },
        {
            "apiGroups": [""],
            "resources": [kinds.SECRET.plural],
            "resourceNames": [secret],
            "verbs": ["get", "update"],
        },
    ]


def named_rules() -> list[Object]:
    """Cluster-wide objects of ours, by name: the CA of the webhooks, the definitions."""
    found = [
        {
            "apiGroups": [resource.group],
            "resources": [resource.plural],
            "resourceNames": [webhooks.NAME],
            "verbs": ["get", "patch"],
        }
        for resource in (webhooks.MUTATING, webhooks.VALIDATING)
    ]
    return [
        *found,
        {
            "apiGroups": [RUNTIME_CLASS.group],
            "resources": [RUNTIME_CLASS.plural],
            "verbs": ["get"],
        },
        {
            "apiGroups": [kinds.CRD.group],
            "resources": [kinds.CRD.plural],
            "resourceNames": sorted(f"{d.plural}.{d.group}" for d in OWN),
            "verbs": ["patch"],
        },
    ]


def console_rules() -> list[Object]:
    """What the console of `kai run` needs besides: asking who its viewers are and what they may do.

    It changes nothing by its own rights, but by those of the viewer.
    """
    return [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["create"]}
        for kind in (TOKEN_REVIEW, ACCESS_REVIEW)
    ]


def queue_roles(name: str) -> list[Object]:
    """Roles to bind people to: who sees all queues and nodes, and who may change queues."""
    queue, node = kinds.QUEUE, kinds.NODE
    seen = [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(READ)}
        for kind in (queue, node)
    ]
    changed = {"apiGroups": [queue.group], "resources": [queue.plural], "verbs": ["patch"]}
    return [
        {
            "apiVersion": _RBAC,
            "kind": "ClusterRole",
            "metadata": _about(f"{name}-{role}", ""),
            "rules": rules,
        }
        for role, rules in (("queue-viewer", seen), ("queue-editor", [*seen, changed]))
    ]


def reservation_rules() -> list[Object]:
    """Rules of the Role in the namespace of the pods that keep shared GPUs."""
    claim = kinds.RESOURCE_CLAIM
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch", "delete"]},
        {"apiGroups": [claim.group], "resources": [claim.plural], "verbs": ["create"]},
    ]


def _grouped() -> Iterable[tuple[str, str]]:
    """(API group, plural) of all kinds that own pods."""
    plural_of = {(r.group, r.kind): r.plural for r in kinds.ALL}
    for group, kind in (*RULES, *WRAPPERS, *READ_TOO):
        yield group, plural_of.get((group, kind)) or _PLURALS[kind]


def _merged(verbs: dict[tuple[str, str], set[str]]) -> list[Object]:
    """One rule for all resources of a group that have the same verbs."""
    table: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, path), found in verbs.items():
        table.setdefault((group, tuple(sorted(found))), []).append(path)
    return [
        {"apiGroups": [group], "resources": sorted(paths), "verbs": list(found)}
        for (group, found), paths in sorted(table.items())
    ]


def manifests(
    account: str, namespace: str, reservations: str, *, console: bool = False
) -> list[Object]:
    """The service account and all rules for it. `reservations`: where reservation pods are.

    console: with what `kai run --console` needs, and roles for its viewers.
    """
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    more = console_rules() if console else []
    found: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _about(account, namespace)}
    ]
    for kind, where, rules in (
        ("ClusterRole", "", [*cluster_rules(), *named_rules(), *more]),
        ("Role", namespace, [*namespace_rules(), *_creating()]),
        ("Role", reservations, reservation_rules()),
    ):
        meta = _about(account, where)
        found.append({"apiVersion": _RBAC, "kind": kind, "metadata": meta, "rules": rules})
        found.append(
            {
                "apiVersion": _RBAC,
                "kind": f"{kind}Binding",
                "metadata": meta,
                "roleRef": {"apiGroup": _RBAC.partition("/")[0], "kind": kind, "name": account},
                "subjects": [subject],
            }
        )
    return [*found, *(queue_roles(account) if console else [])]


def _creating() -> list[Object]:
    """Without the chart nobody makes the Lease and the Secret beforehand."""
    return [
        {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["create"]}
        for resource in (kinds.LEASE, kinds.SECRET)
    ]


def _about(name: str, namespace: str) -> Object:
    meta: Object = {"name": name, "labels": {"app.kubernetes.io/part-of": "kai-ray"}}
    return meta | ({"namespace": namespace} if namespace else {})

"""The webhook configurations: which writes the API server asks us about.

Only what CEL cannot decide comes here, and passes while we are down (`Ignore`): a bad queue or
PodGroup is then named in its conditions, and a pod that shares GPUs has the variables that a policy
gave it. Only where the server has no MutatingAdmissionPolicy some pods must wait for us (`Fail`):
those of managed namespaces need their scheduler name, those that share GPUs their variables. Pods
of other schedulers match nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kai_ray.admission.policies import GROUP, PART_OF, UNCLAIMED, rule
from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.encode.settings import EncodeConfig

MUTATING = Resource(
    GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING = Resource(
    GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
NAME = "kai-ray"
DOMAIN = "kai-ray.kai.scheduler"
#: Kinds that users write, about which there may be something to say at once.
WORKLOADS = (
    kinds.JOB,
    kinds.JOB_SET,
    kinds.TRAIN_JOB,
    kinds.LEADER_WORKER_SET,
    kinds.RAY_CLUSTER,
    kinds.RAY_JOB,
    kinds.RAY_SERVICE,
    kinds.PYTORCH_JOB,
    kinds.TF_JOB,
    kinds.MPI_JOB,
    kinds.XGBOOST_JOB,
    kinds.PADDLE_JOB,
    kinds.JAX_JOB,
)
_PATIENT_S, _IMPATIENT_S = 5, 2
_NOTES = "metadata.?annotations.orValue({})"
#: What an update changes that we would have to look at again.
_SAID_ANEW = (
    "request.operation != 'UPDATE' || object.spec != oldObject.spec || "
    f"object.{_NOTES} != oldObject.{_NOTES}"
)
#: A release takes all of its queues with it, parents first: it must not stop in the middle.
_BY_PEOPLE = (
    "oldObject.metadata.?labels.orValue({})[?'app.kubernetes.io/managed-by'].orValue('') != 'Helm'"
)
_SHARES = f"['{names.GPU_FRACTION}', '{names.GPU_MEMORY}'].exists(k, k in object.{_NOTES})"


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """Where the webhook is reached, and what is left out."""

    client: Mapping[str, object]  # {"service": {...}} or {"url": "https://host:port"}
    scheduler_names: tuple[str, ...] = EncodeConfig().scheduler_names
    routes: bool = False  # the server has no MutatingAdmissionPolicy
    every_pod: bool = False  # ask about all pods of ours: gates of suspended gangs, owners
    not_in: tuple[str, ...] = ("kube-system",)  # namespaces that never ask us
    ca_bundle: str = ""


def configurations(config: WebhookConfig) -> list[Object]:
    """The mutating and the validating configuration."""
    policy = "Fail" if config.routes else "Ignore"
    mutating = [_pods(config, "shares", f"{_ours(config)} && {_SHARES}", policy)]
    if config.every_pod:
        mutating.append(_pods(config, "all", f"{_ours(config)} && !({_SHARES})", "Ignore"))
    if config.routes:
        mutating.insert(0, _routing(config))
    validating = [
        _own(config, "queues", [(kinds.QUEUE, ("CREATE", "UPDATE"))]),
        _own(config, "queue-deletions", [(kinds.QUEUE, ("DELETE",))], _BY_PEOPLE),
        _own(config, "podgroups", [(kinds.POD_GROUP, ("CREATE", "UPDATE"))]),
        _own(
            config,
            "settings",
            [
                (kinds.TOPOLOGY, ("CREATE", "UPDATE")),
                (kinds.SCHEDULING_SHARD, ("CREATE", "UPDATE")),
            ],
        ),
        *_workloads(config),
    ]
    return [_configuration(MUTATING, mutating), _configuration(VALIDATING, validating)]


def _ours(config: WebhookConfig) -> str:
    listed = json.dumps(list(config.scheduler_names))
    return f"has(object.spec.schedulerName) && object.spec.schedulerName in {listed}"


def _pods(config: WebhookConfig, name: str, condition: str, policy: str = "Fail") -> Object:
    return _webhook(
        config,
        f"{name}.pods",
        [rule("", "v1", "pods", "CREATE")],
        conditions={name: condition},
        selector=_elsewhere(config),
        policy=policy,
        timeout_s=_PATIENT_S if policy == "Fail" else _IMPATIENT_S,
    ) | {"reinvocationPolicy": "IfNeeded"}


def _routing(config: WebhookConfig) -> Object:
    """In place of the policy; the name sorts it before those that look at our pods."""
    selector = _elsewhere(config)
    selector["matchLabels"] = {names.MANAGED_NAMESPACE: "true"}
    return {**_pods(config, "routing", UNCLAIMED), "namespaceSelector": selector}


def _own(
    config: WebhookConfig,
    name: str,
    about: Sequence[tuple[Resource, tuple[str, ...]]],
    condition: str = _SAID_ANEW,
) -> Object:
    """Objects of our own kinds."""
    rules = [rule(kind.group, kind.version, kind.plural, *operations) for kind, operations in about]
    return _webhook(config, name, rules, conditions={"of-interest": condition})


def _workloads(config: WebhookConfig) -> list[Object]:
    """What users write themselves: in a managed namespace, or with the name of a queue."""
    rules = [rule(kind.group, kind.version, kind.plural, "CREATE") for kind in WORKLOADS]
    conditions = {"top": "!has(object.metadata.ownerReferences)"}
    managed = {"matchLabels": {names.MANAGED_NAMESPACE: "true"}}
    unmanaged = _elsewhere(config)
    unmanaged["matchExpressions"] += [
        {"key": names.MANAGED_NAMESPACE, "operator": "NotIn", "values": ["true"]}
    ]
    queued = {"matchExpressions": [{"key": names.QUEUE, "operator": "Exists"}]}
    return [
        _webhook(config, "managed.workloads", rules, conditions=conditions, selector=managed),
        _webhook(config, "queued.workloads", rules, conditions=conditions, selector=unmanaged)
        | {"objectSelector": queued},
    ]


def _webhook(
    config: WebhookConfig,
    name: str,
    rules: list[Object],
    *,
    conditions: Mapping[str, str],
    selector: Object | None = None,
    policy: str = "Ignore",
    timeout_s: int = _IMPATIENT_S,
) -> Object:
    made: Object = {
        "name": f"{name}.{DOMAIN}",
        "clientConfig": _client(config, name),
        "rules": rules,
        "matchConditions": [{"name": n, "expression": e} for n, e in conditions.items()],
        "failurePolicy": policy,
        "sideEffects": "None",
        "timeoutSeconds": timeout_s,
        "admissionReviewVersions": ["v1"],
    }
    if selector is not None:
        made["namespaceSelector"] = selector
    return made


def _client(config: WebhookConfig, name: str) -> Object:
    path = f"/admit/{name}"
    found: Object = {}
    if "url" in config.client:
        found["url"] = f"{str(config.client['url']).rstrip('/')}{path}"
    else:
        service = config.client["service"]
        assert isinstance(service, dict)
        found["service"] = {**service, "path": path}
    if config.ca_bundle:
        found["caBundle"] = config.ca_bundle
    return found


def _elsewhere(config: WebhookConfig) -> Object:
    """Namespaces whose pods we must not be able to keep from starting: our own, the cluster's."""
    one = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": list(config.not_in),
    }
    return {"matchExpressions": [one]}


def _configuration(resource: Resource, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME, "labels": dict(PART_OF)},
        "webhooks": webhooks,
    }

"""Admission policies in CEL: what the API server itself can decide, also while we are down.

`routing` gives pods of managed namespaces our scheduler name, another policy wires containers that
share GPUs to what they will be told (MutatingAdmissionPolicy). The others refuse what could never
be granted (ValidatingAdmissionPolicy). All of them are made here, printed by `kai policies` and
shipped by the chart. Pods of other schedulers match none of them.

Served by default: ValidatingAdmissionPolicy v1 from Kubernetes 1.30 on, MutatingAdmissionPolicy v1
from 1.36 on; before, the webhook does the routing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kai_ray.admission import policy_env, policy_pods, policy_queues
from kai_ray.api import labels as names
from kai_ray.cluster.port import ApiError, Object
from kai_ray.encode.settings import EncodeConfig

GROUP = "admissionregistration.k8s.io"
ROUTING = "kai-ray-routing"
PART_OF = {"app.kubernetes.io/part-of": "kai-ray"}
#: Versions of MutatingAdmissionPolicy that we can write, best first.
MUTATING_VERSIONS = ("v1", "v1beta1")

#: Pods that named no scheduler, and were not put on a node by their maker.
UNCLAIMED = (
    "(!has(object.spec.schedulerName) || object.spec.schedulerName in ['', 'default-scheduler'])"
    " && (!has(object.spec.nodeName) || object.spec.nodeName == '')"
)


def policies(
    scheduler_names: Sequence[str] = EncodeConfig().scheduler_names, mutating: str = "v1"
) -> list[Object]:
    """All policies, each followed by its binding. `mutating` "" leaves the routing out."""
    found: list[Object] = []
    if mutating:
        found += routing(scheduler_names[0], mutating)
    ours = f"object.spec.schedulerName in {json.dumps(list(scheduler_names))}"
    if mutating:
        found += _wiring(ours, mutating)
    for name, spec in (*policy_pods.specs(ours).items(), *policy_queues.specs().items()):
        found += _validating(name, spec)
    return found


def routing(scheduler_name: str, version: str = "v1") -> list[Object]:
    """Pods that ask for no scheduler become ours in namespaces labelled managed=true.

    A JSON patch, because an applied configuration refuses pods with two equal entries in a list
    (ports, variables), which the API server itself lets through.
    """
    value = json.dumps(scheduler_name)
    patch = f'[JSONPatch{{op: "add", path: "/spec/schedulerName", value: {value}}}]'
    policy = _object("MutatingAdmissionPolicy", version, ROUTING)
    policy["spec"] = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule("", "v1", "pods", "CREATE")]},
        "matchConditions": [{"name": "unclaimed", "expression": UNCLAIMED}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    binding = _object("MutatingAdmissionPolicyBinding", version, ROUTING)
    managed = {"matchLabels": {names.MANAGED_NAMESPACE: "true"}}
    binding["spec"] = {"policyName": ROUTING, "matchResources": {"namespaceSelector": managed}}
    return [policy, binding]


def _wiring(ours: str, version: str) -> list[Object]:
    """Containers that share GPUs get their variables."""
    policy = _object("MutatingAdmissionPolicy", version, policy_env.ENVIRONMENT)
    policy["spec"] = policy_env.spec(ours, UNCLAIMED)
    binding = _object("MutatingAdmissionPolicyBinding", version, policy_env.ENVIRONMENT)
    binding["spec"] = {"policyName": policy_env.ENVIRONMENT}
    return [policy, binding]


def mutating_version(server: object) -> str:
    """The best version of MutatingAdmissionPolicy that a server has on; "" if none.

    `server` is a port with `raw(method, path)`. Raises ApiError if it cannot be asked.
    """
    for version in MUTATING_VERSIONS:
        try:
            found = server.raw("GET", f"/apis/{GROUP}/{version}")  # type: ignore[attr-defined]
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        if any(r["name"] == "mutatingadmissionpolicies" for r in found.get("resources") or ()):
            return version
    return ""


def rule(group: str, version: str, plural: str, *operations: str) -> Object:
    """One entry of `resourceRules`."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "operations": list(operations),
    }


def _validating(name: str, spec: Object) -> list[Object]:
    policy = _object("ValidatingAdmissionPolicy", "v1", name)
    policy["spec"] = {"failurePolicy": "Fail", **spec}
    binding = _object("ValidatingAdmissionPolicyBinding", "v1", name)
    binding["spec"] = {"policyName": name, "validationActions": ["Deny"]}
    return [policy, binding]


def _object(kind: str, version: str, name: str) -> Object:
    metadata = {"name": name, "labels": dict(PART_OF)}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata}

"""The API server's part of the fence: it refuses grants of a term that is over.

What a leader grants carries the annotation `kai.scheduler/term`: its lease, and how often that had
changed hands. These policies compare it with the lease itself, so a leader that slept between its
last look at the clock and its write is refused, however long it slept. Grants without the
annotation (other schedulers, a single process without a lease) are none of their business.
"""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object, Port, Resource

POLICY = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
)
POLICY_BINDING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    False,
)
NAME = "kai-ray-term"
FIELD_MANAGER = "kai-ray-install"

_TERM = f"object.metadata.annotations['{names.TERM}']"
_CARRIES = f"has(object.metadata.annotations) && '{names.TERM}' in object.metadata.annotations"
_LEASE = "params.metadata.namespace + '/' + params.metadata.name + '/'"


def policy() -> Object:
    """One for all leases of the cluster."""
    return {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "kai-ray"}},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE"],
                        "resources": [resource],
                    }
                    for group, resource in (
                        ("", "pods/binding"),
                        ("scheduling.run.ai", "bindrequests"),
                    )
                ]
            },
            "matchConditions": [{"name": "of-a-leader", "expression": _CARRIES}],
            "validations": [
                {
                    "expression": f"!{_TERM}.startsWith({_LEASE}) || "
                    f"{_TERM} == {_LEASE} + string(params.spec.leaseTransitions)",
                    "messageExpression": f"'decided in the term ' + {_TERM} + "
                    "', which is over: another process leads'",
                    "reason": "Forbidden",
                }
            ],
        },
    }


def policy_binding(namespace: str, lease: str) -> Object:
    """Puts the policy to work for one lease."""
    return {
        "apiVersion": POLICY_BINDING.api_version,
        "kind": POLICY_BINDING.kind,
        "metadata": {
            "name": f"{NAME}-{namespace}-{lease}",
            "labels": {"app.kubernetes.io/part-of": "kai-ray"},
        },
        "spec": {
            "policyName": NAME,
            "paramRef": {
                "name": lease,
                "namespace": namespace,
                "parameterNotFoundAction": "Allow",
            },
            "validationActions": ["Deny"],
        },
    }


def install_fence(port: Port, namespace: str, lease: str) -> None:
    """Applies both, server-side."""
    for resource, manifest in (
        (POLICY, policy()),
        (POLICY_BINDING, policy_binding(namespace, lease)),
    ):
        port.patch(
            resource,
            manifest["metadata"]["name"],
            manifest,
            patch_type="apply",
            field_manager=FIELD_MANAGER,
            force=True,
        )

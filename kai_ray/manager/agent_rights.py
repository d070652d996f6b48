"""What a node agent may do: read the pods of its node, write the one object that is its node's.

RBAC knows nothing of nodes, so a policy of the API server adds what it cannot say: a token that was
given to a pod names the pod's node (Kubernetes 1.32), and only the object of that name is written.
A token that names no node, as before that version, is not held back.
"""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from kai_ray.manager.fence import POLICY, POLICY_BINDING

NAME = "kai-ray-agent"
_STATE = kinds.GPU_NODE_STATE
_NODE = "authentication.kubernetes.io/node-name"
_PART_OF = {"app.kubernetes.io/part-of": "kai-ray"}


def rules() -> list[Object]:
    """Rules of the ClusterRole."""
    return [
        {"apiGroups": [""], "resources": [kinds.POD.plural], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": [kinds.NODE.plural], "verbs": ["get"]},
        {"apiGroups": [_STATE.group], "resources": [_STATE.plural], "verbs": ["create"]},
        {
            "apiGroups": [_STATE.group],
            "resources": [f"{_STATE.plural}/status"],
            "verbs": ["patch"],
        },
    ]


def policy(account: str, namespace: str, name: str = NAME) -> Object:
    """That an agent writes the object of its own node only."""
    user = f"system:serviceaccount:{namespace}:{account}"
    extra = f"request.userInfo.extra['{_NODE}']"
    return {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": name, "labels": _PART_OF},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [_STATE.group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [_STATE.plural, f"{_STATE.plural}/status"],
                    }
                ]
            },
            "matchConditions": [
                {"name": "of-an-agent", "expression": f"request.userInfo.username == '{user}'"},
                {
                    "name": "names-its-node",
                    "expression": "has(request.userInfo.extra) && "
                    f"'{_NODE}' in request.userInfo.extra",
                },
            ],
            "validations": [
                {
                    "expression": f"{extra}.exists(node, node == object.metadata.name)",
                    "messageExpression": f"'the agent of node ' + {extra}[0] + "
                    "' may not speak for node ' + object.metadata.name",
                    "reason": "Forbidden",
                }
            ],
        },
    }


def policy_binding(name: str = NAME) -> Object:
    return {
        "apiVersion": POLICY_BINDING.api_version,
        "kind": POLICY_BINDING.kind,
        "metadata": {"name": name, "labels": _PART_OF},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def manifests(account: str, namespace: str) -> list[Object]:
    """The service account of the agents, its rights and the policy."""
    rbac = "rbac.authorization.k8s.io"
    about: Object = {"name": account, "labels": _PART_OF}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": account}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": about | {"namespace": namespace},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": about,
            "rules": rules(),
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": about,
            "roleRef": role,
            "subjects": [subject],
        },
        policy(account, namespace, account),
        policy_binding(account),
    ]

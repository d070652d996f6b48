"""Whether a user may do a thing: RBAC, read from the store's roles and bindings.

Members of `system:masters` may do everything. ClusterRoles `cluster-admin`, `edit` and `view` exist
without being stored; a stored one of that name wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import NotFound, Object, Resource

from .users import User

_READ = ["get", "list", "watch"]
_WRITE = ["create", "update", "patch", "delete", "deletecollection"]
_ALL = {"apiGroups": ["*"], "resources": ["*"]}
_OWN_ROLES: dict[str, list[Object]] = {
    "cluster-admin": [
        _ALL | {"verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "edit": [_ALL | {"verbs": _READ + _WRITE}],
    "view": [_ALL | {"verbs": _READ}],
}
#: What every authenticated user may do: look at the API, and ask about itself.
_EVERYBODY: list[Object] = [
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        "verbs": ["create"],
    },
    {
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
        "verbs": ["create"],
    },
    {
        "nonResourceURLs": [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
        "verbs": ["get"],
    },
]


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody wants to do: to a resource, or to a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def allowed(store: MemoryStore, user: User, act: Act) -> tuple[bool, str]:
    """Whether the user may, and by what right."""
    if user.is_master:
        return True, ""
    for rule, why in rules_of(store, user, act.namespace):
        if _covers(rule, act):
            return True, why
    return False, ""


def rules_of(store: MemoryStore, user: User, namespace: str) -> Iterator[tuple[Object, str]]:
    """Every rule that holds for the user in a namespace ("" for the whole cluster), and why."""
    if user.is_master:
        for rule in _OWN_ROLES["cluster-admin"]:
            yield rule, "RBAC: allowed to members of system:masters"
    for rule in _EVERYBODY:
        yield rule, "RBAC: allowed to everybody"
    for binding in store.list(r.CLUSTER_ROLE_BINDING).items:
        yield from _bound(store, user, binding, "")
    if namespace:
        for binding in store.list(r.ROLE_BINDING, namespace).items:
            yield from _bound(store, user, binding, namespace)


def _bound(
    store: MemoryStore, user: User, binding: Object, namespace: str
) -> Iterator[tuple[Object, str]]:
    if not any(_is_subject(s, user, namespace) for s in binding.get("subjects") or ()):
        return
    ref = binding.get("roleRef") or {}
    kind, name = ref.get("kind", ""), ref.get("name", "")
    why = f'RBAC: allowed by {binding["kind"]} "{binding["metadata"]["name"]}" of {kind} "{name}"'
    for rule in _rules_of_role(store, kind, name, namespace):
        yield rule, why


def _rules_of_role(store: MemoryStore, kind: str, name: str, namespace: str) -> list[Any]:
    cluster_wide = kind == "ClusterRole"
    resource: Resource = r.CLUSTER_ROLE if cluster_wide else r.ROLE
    try:
        role = store.get(resource, name, "" if cluster_wide else namespace)
    except NotFound:
        return _OWN_ROLES.get(name, []) if cluster_wide else []
    return role.get("rules") or []


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return name == user.name
    if kind == "Group":
        return name in user.groups
    home = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"system:serviceaccount:{home}:{name}"


def _covers(rule: Object, act: Act) -> bool:
    if not _has(rule.get("verbs"), act.verb):
        return False
    if act.path:
        return any(_path_matches(p, act.path) for p in rule.get("nonResourceURLs") or ())
    full = f"{act.resource}/{act.subresource}" if act.subresource else act.resource
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), act.group)
        and any(p in ("*", full, f"*/{act.subresource}") for p in rule.get("resources") or ())
        and (not names or act.name in names)
    )


def _has(values: Any, wanted: str) -> bool:
    return any(v in ("*", wanted) for v in values or ())


def _path_matches(pattern: str, path: str) -> bool:
    return path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1]))

"""Questions that clients ask by creating an object: who am I, may I, whose token is this."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import BadRequest, NotFound, Object

from .answers import MethodNotAllowed, json_answer
from .authorize import Act, allowed, rules_of
from .call import Call
from .discovery import REVIEWS
from .users import TokenTable, User


def is_review(path: str) -> bool:
    return any(path.startswith(f"/apis/{review.group}/{review.version}/") for review in REVIEWS)


def answer(store: MemoryStore, tokens: TokenTable, call: Call) -> Response:
    """The review with its status filled in."""
    parts = call.path.strip("/").split("/")[1:]  # group, version, [namespaces, NAMESPACE,] plural
    namespace = ""
    if len(parts) == 5 and parts[2] == "namespaces":
        namespace = parts[3]
        parts = [*parts[:2], parts[4]]
    known = [r for r in REVIEWS if [r.group, r.version, r.plural] == parts]
    if not known or known[0].namespaced is not bool(namespace):
        raise NotFound("the server could not find the requested resource")
    if call.method != "POST":
        raise MethodNotAllowed("reviews can only be created")
    review = known[0]
    body = call.object()
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise BadRequest("spec must be an object")
    if review.plural == "selfsubjectreviews":
        status: Object = {"userInfo": _user_info(call.user)}
    elif review.plural == "tokenreviews":
        status = _token_status(tokens, spec)
    elif review.plural == "selfsubjectrulesreviews":
        status = _rules_status(store, call.user, str(spec.get("namespace") or ""))
    else:
        user = call.user if review.plural == "selfsubjectaccessreviews" else _user_of(spec)
        status = _access_status(store, user, spec, namespace)
    about = {"apiVersion": f"{review.group}/{review.version}", "kind": review.kind}
    return json_answer(
        about | {"metadata": body.get("metadata") or {}, "spec": spec, "status": status}, 201
    )


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info


def _token_status(tokens: TokenTable, spec: Object) -> Object:
    user = tokens.user_of(str(spec.get("token") or ""))
    if user is None:
        return {"authenticated": False, "error": "the token is not known"}
    return {"authenticated": True, "user": _user_info(user)}


def _user_of(spec: Object) -> User:
    name, groups = spec.get("user") or "", spec.get("groups") or ()
    if not name and not groups:
        raise BadRequest("spec: at least one of user or groups must be specified")
    return User(str(name), tuple(str(g) for g in groups), str(spec.get("uid") or ""))


def _access_status(store: MemoryStore, user: User, spec: Object, namespace: str) -> Object:
    wanted: Any = spec.get("resourceAttributes")
    path: Any = spec.get("nonResourceAttributes")
    if isinstance(wanted, dict):
        act = Act(
            verb=str(wanted.get("verb") or "*"),
            group=str(wanted.get("group") or ""),
            resource=str(wanted.get("resource") or "*"),
            subresource=str(wanted.get("subresource") or ""),
            namespace=namespace or str(wanted.get("namespace") or ""),
            name=str(wanted.get("name") or ""),
        )
    elif isinstance(path, dict):
        act = Act(verb=str(path.get("verb") or "*"), path=str(path.get("path") or "*"))
    else:
        raise BadRequest("spec: one of resourceAttributes and nonResourceAttributes is needed")
    may, why = allowed(store, user, act)
    return {"allowed": may} | ({"reason": why} if why else {})


def _rules_status(store: MemoryStore, user: User, namespace: str) -> Object:
    resource_rules: list[Object] = []
    path_rules: list[Object] = []
    for rule, _ in rules_of(store, user, namespace):
        if rule.get("nonResourceURLs"):
            path_rules.append({k: rule[k] for k in ("verbs", "nonResourceURLs") if k in rule})
        else:
            keys = ("verbs", "apiGroups", "resources", "resourceNames")
            resource_rules.append({k: rule[k] for k in keys if k in rule})
    return {
        "resourceRules": resource_rules,
        "nonResourceRules": path_rules,
        "incomplete": False,
    }

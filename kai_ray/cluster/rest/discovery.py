"""Discovery: groups, versions and resources served, in the old and in the aggregated form."""

from __future__ import annotations

from typing import NamedTuple

from kai_ray.cluster.memory import Registry, Served
from kai_ray.cluster.port import NotFound, Object

READ = ["get", "list", "watch"]
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
#: All namespaces at once are nobody's wish.
NAMESPACE_VERBS = [verb for verb in VERBS if verb != "deletecollection"]
STATUS_VERBS = ["get", "patch", "update"]
AGGREGATED = "apidiscovery.k8s.io"
AGGREGATED_VERSIONS = ("v2", "v2beta1")


class Sub(NamedTuple):
    """A subresource in discovery. `group` and `version` "" mean those of its parent."""

    name: str
    kind: str
    verbs: list[str]
    group: str = ""
    version: str = ""


class Review(NamedTuple):
    """A resource that is only ever created, to ask a question."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False


REVIEWS = (
    Review("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"),
    Review("authentication.k8s.io", "v1", "tokenreviews", "TokenReview"),
    Review(
        "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True
    ),
    Review("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    Review("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    Review("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"),
)
_OF_PODS = (
    Sub("binding", "Binding", ["create"]),
    Sub("eviction", "Eviction", ["create"], "policy", "v1"),
    Sub("log", "Pod", ["get"]),
)
_OF_ACCOUNTS = (Sub("token", "TokenRequest", ["create"], "authentication.k8s.io", "v1"),)


def api_versions(host: str) -> Object:
    """The answer to /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    }


def group_list(kinds: Registry) -> Object:
    """The answer to /apis."""
    groups = [group(kinds, name) for name in _versions(kinds) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Registry, name: str) -> Object:
    """The answer to /apis/GROUP. Raises NotFound."""
    versions = _versions(kinds).get(name)
    if not versions:
        raise NotFound("the server could not find the requested resource")
    named = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": named,
        "preferredVersion": named[0],
    }


def resource_list(kinds: Registry, name: str, version: str) -> Object:
    """The answer to /api/v1 and /apis/GROUP/VERSION. Raises NotFound."""
    if version not in _versions(kinds).get(name, ()):
        raise NotFound("the server could not find the requested resource")
    resources: list[Object] = []
    for served in _served(kinds, name, version):
        resources.append(_resource(served))
        resources += [_subresource(served, sub) for sub in subresources(served)]
    resources += [
        {
            "name": review.plural,
            "singularName": review.kind.lower(),
            "namespaced": review.namespaced,
            "kind": review.kind,
            "verbs": ["create"],
        }
        for review in _reviews(name, version)
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": resources,
    }


def aggregated(kinds: Registry, *, core: bool, version: str) -> Object:
    """Everything below /api or /apis in one answer."""
    items: list[Object] = []
    for name, versions in _versions(kinds).items():
        if (name == "") is core:
            metadata = {"name": name} if name else {}
            found = [
                {"version": v, "resources": _aggregated(kinds, name, v), "freshness": "Current"}
                for v in versions
            ]
            items.append({"metadata": metadata, "versions": found})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED}/{version}",
        "metadata": {},
        "items": items,
    }


def subresources(served: Served) -> list[Sub]:
    found: list[Sub] = []
    if served.status:
        found.append(Sub("status", served.resource.kind, STATUS_VERBS))
    if served.scale is not None:
        found.append(Sub("scale", "Scale", STATUS_VERBS, "autoscaling", "v1"))
    if served.group_plural == ("", "pods"):
        found += _OF_PODS
    if served.group_plural == ("", "serviceaccounts"):
        found += _OF_ACCOUNTS
    if served.group_plural == ("", "namespaces"):
        found.append(Sub("finalize", "Namespace", ["update"]))
    return found


def _resource(served: Served) -> Object:
    res = served.resource
    found: Object = {
        "name": res.plural,
        "singularName": served.singular,
        "namespaced": res.namespaced,
        "kind": res.kind,
        "verbs": _verbs(served),
    }
    if served.short_names:
        found["shortNames"] = list(served.short_names)
    if served.categories:
        found["categories"] = list(served.categories)
    return found


def _verbs(served: Served) -> list[str]:
    return NAMESPACE_VERBS if served.group_plural == ("", "namespaces") else VERBS


def _subresource(served: Served, sub: Sub) -> Object:
    found: Object = {
        "name": f"{served.resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    }
    if sub.version:
        found |= {"group": sub.group, "version": sub.version}
    return found


def _aggregated(kinds: Registry, name: str, version: str) -> list[Object]:
    found: list[Object] = []
    for served in _served(kinds, name, version):
        res = served.resource
        entry = _aggregated_entry(
            res.plural, served.singular, res.kind, name, version, res.namespaced, _verbs(served)
        )
        if served.short_names:
            entry["shortNames"] = list(served.short_names)
        if served.categories:
            entry["categories"] = list(served.categories)
        subs = [
            {
                "subresource": sub.name,
                "responseKind": {
                    "group": sub.group if sub.version else name,
                    "version": sub.version or version,
                    "kind": sub.kind,
                },
                "verbs": sub.verbs,
            }
            for sub in subresources(served)
        ]
        if subs:
            entry["subresources"] = subs
        found.append(entry)
    for review in _reviews(name, version):
        singular = review.kind.lower()
        found.append(
            _aggregated_entry(
                review.plural, singular, review.kind, name, version, review.namespaced, ["create"]
            )
        )
    return found


def _aggregated_entry(
    plural: str,
    singular: str,
    kind: str,
    group: str,
    version: str,
    namespaced: bool,
    verbs: list[str],
) -> Object:
    return {
        "resource": plural,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": singular,
        "verbs": verbs,
    }


def _served(kinds: Registry, name: str, version: str) -> list[Served]:
    return [s for s in kinds if (s.resource.group, s.resource.version) == (name, version)]


def _reviews(name: str, version: str) -> list[Review]:
    return [r for r in REVIEWS if (r.group, r.version) == (name, version)]


def _versions(kinds: Registry) -> dict[str, list[str]]:
    """Versions of each group, the preferred one first; the core group is ""."""
    found: dict[str, set[str]] = {}
    for served in kinds:
        found.setdefault(served.resource.group, set()).add(served.resource.version)
    for review in REVIEWS:
        found.setdefault(review.group, set()).add(review.version)
    return {
        name: sorted(versions, key=version_rank, reverse=True) for name, versions in found.items()
    }


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts as Kubernetes ranks versions: v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > others."""
    stages = {"": 3, "beta": 2, "alpha": 1}
    text = version.removeprefix("v")
    for stage in ("beta", "alpha", ""):
        major, found, minor = text.partition(stage) if stage else (text, "", "0")
        if version.startswith("v") and major.isdigit() and (found == stage) and minor.isdigit():
            return stages[stage], int(major), int(minor), version
    return 0, 0, 0, version

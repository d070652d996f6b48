"""Whatever is asked, the server answers in order: never 500, always a Status for a refusal."""

from __future__ import annotations

import contextlib
import copy
import json
import ssl
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import path_of
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import ApiError
from kai_ray.cluster.rest import RestServer

KINDS = (r.POD, r.NODE, r.JOB, r.QUEUE, r.POD_GROUP, r.SERVICE, r.CRD, r.DEPLOYMENT, r.NAMESPACE)
KINDS += (r.EVENT, r.SECRET, r.PDB, r.PRIORITY_CLASS, r.RAY_JOB, r.CONFIG_MAP, r.SERVICE_ACCOUNT)
SUBS = ("", "", "", "", "status", "scale", "binding", "eviction", "log", "token", "finalize", "x")
MEDIA = (
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
)
FIELDS = (
    "apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations", "finalizers",
    "ownerReferences", "uid", "resourceVersion", "spec", "status", "containers", "replicas",
    "selector", "template", "matchLabels", "target", "deleteOptions", "preconditions", "rules",
    "group", "versions", "names", "scope", "resources", "gpu", "quota", "data", "conditions",
    "op", "path", "value", "$patch", "$setElementOrder/containers", "managedFields", "generateName",
)  # fmt: skip
WORDS = st.sampled_from(
    ("", "a", "p", "default", "v1", "Pod", "merge", "/spec", "-1", "é", "x" * 300)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=12,
)
QUERY = st.dictionaries(
    st.sampled_from(
        (
            "labelSelector", "fieldSelector", "limit", "continue", "dryRun", "fieldManager",
            "fieldValidation", "propagationPolicy", "gracePeriodSeconds", "includeObject", "force",
            "resourceVersion", "container", "tailLines", "limitBytes",
        )
    ),
    st.sampled_from(("", "a=b", "a in (b", "1", "-1", "All", "true", "Strict", "Orphan", "é")),
    max_size=3,
)  # fmt: skip


CONTAINERS = [{"name": "c", "image": "i"}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
SELECTOR = {"matchLabels": {"a": "b"}}
WHOLE: dict[r.Resource, dict[str, Any]] = {
    r.POD: {"spec": {"containers": CONTAINERS}},
    r.JOB: {
        "spec": {"template": {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}},
    },
    r.DEPLOYMENT: {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    r.QUEUE: {"spec": {"resources": {"gpu": {"quota": 1}}}},
    r.POD_GROUP: {"spec": {"minMember": 1, "queue": "default-queue"}},
    r.SERVICE: {"spec": {"ports": [{"port": 80}]}},
    r.PDB: {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    r.PRIORITY_CLASS: {"value": 5},
    r.CRD: {
        "metadata": {"name": "ps.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "ps", "kind": "P"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
    r.EVENT: {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}},
}


def whole(kind: r.Resource) -> dict[str, Any]:
    """A valid object of the kind."""
    head: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
    about = {"name": "p"} | ({"namespace": "default"} if kind.namespaced else {})
    return head | {"metadata": about} | copy.deepcopy(WHOLE.get(kind, {}))


def grafted(obj: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The object with a value put at a path, as deep as the path is there."""
    at: Any = obj
    for step in path[:-1]:
        below = at.get(step)
        at = below[0] if isinstance(below, list) and below else below
        if not isinstance(at, dict):
            return obj | {path[0]: value}
    at[path[-1]] = value
    return obj


@pytest.fixture(scope="module")
def fuzzed() -> Any:
    """A server of its own: what is written here must not trouble other tests."""
    from kai_ray.cluster.memory import install_defaults

    store = MemoryStore()
    install_defaults(store)
    with RestServer(store, tokens={"administrator-token": "a"}) as server:
        context = ssl.create_default_context(cadata=server.connection().ca_pem.decode())  # type: ignore[union-attr]
        yield server, store, urllib3.PoolManager(ssl_context=context, retries=False)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE")),
    kind=st.sampled_from(KINDS),
    where=st.sampled_from(("right", "right", "right", "all", "nowhere")),
    sub=st.sampled_from(SUBS),
    media=st.sampled_from(MEDIA),
    accept=st.sampled_from(("", "", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html")),
    query=QUERY,
    graft=st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).map(tuple),
    value=VALUES,
    bare=st.booleans(),
)
def test_no_request_breaks_the_server(
    fuzzed: Any,
    method: str,
    kind: r.Resource,
    where: str,
    sub: str,
    media: str,
    accept: str,
    query: dict[str, str],
    graft: tuple[str, ...],
    value: Any,
    bare: bool,
) -> None:
    server, store, pool = fuzzed
    obj = whole(kind)
    name = obj["metadata"]["name"]
    with contextlib.suppress(ApiError):
        store.create(kind, obj)
    namespace = {"right": "default" if kind.namespaced else "", "all": None}.get(where, "nowhere")
    path = path_of(kind, namespace)
    if method != "POST" or sub:
        path += f"/{name}" + (f"/{sub}" if sub else "")
    else:
        obj["metadata"]["name"] = f"{name}-2"
    body = value if bare else grafted(obj, graft, value)
    if method in ("POST", "PUT") and not bare:
        media = "application/json"
    headers = {"Authorization": "Bearer administrator-token", "Content-Type": media}
    if accept:
        headers["Accept"] = accept
    data = None if method == "GET" else json.dumps(body).encode()
    url = f"{server.url}{path}?{urlencode(query)}"
    answer = pool.request(method, url, body=data, headers=headers)
    said = answer.data.decode()
    assert answer.status not in (500, 503), f"{method} {path} {query} {media} {body}: {said}"
    if answer.status >= 400:
        refusal = json.loads(said)
        assert (refusal["kind"], refusal["code"]) == ("Status", answer.status)

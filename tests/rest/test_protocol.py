"""The REST face at the level of HTTP: forms, limits, refusals, watches."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import urllib3

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.rest import RestServer
from kai_ray.cluster.rest.openapi import gnostic

Ask = Callable[..., urllib3.BaseHTTPResponse]
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.fixture
def ask(server: RestServer) -> Ask:
    context = ssl.create_default_context(cadata=server.connection().ca_pem.decode())  # type: ignore[union-attr]
    pool = urllib3.PoolManager(ssl_context=context, retries=False)

    def send(
        method: str, path: str, body: Any = None, *, token: str = server.token, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        if token:
            named["Authorization"] = f"Bearer {token}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return pool.request(method, server.url + path, body=data, headers=named)

    return send


def config_map(name: str = "cm", **extra: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} | extra


def reason(response: urllib3.BaseHTTPResponse) -> tuple[int, str]:
    answer = response.json()
    assert answer["kind"] == "Status" and answer["status"] == "Failure"
    assert answer["code"] == response.status
    return response.status, answer["reason"]


@pytest.mark.parametrize(
    "token", ["", "wrong-token", "administrator-tokem", "administrator-token2"]
)
def test_only_known_tokens_are_let_in(ask: Ask, token: str) -> None:
    assert reason(ask("GET", "/api/v1/pods", token=token)) == (401, "Unauthorized")


def test_basic_credentials_are_not_taken(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/pods", token="", Authorization="Basic YTpi")
    assert reason(answer) == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_health_is_open_to_everybody(ask: Ask, path: str) -> None:
    assert ask("GET", path, token="").status == 200


def test_a_user_without_roles_sees_the_api_but_no_objects(ask: Ask) -> None:
    assert ask("GET", "/apis", token="plain-user-token").status == 200
    assert reason(ask("GET", "/api/v1/pods", token="plain-user-token")) == (403, "Forbidden")
    body = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = ask("POST", path, body, token="plain-user-token").json()
    assert answer["status"]["allowed"] is False


def test_only_administrators_act_as_others(ask: Ask) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    as_bob = {"Impersonate_User": "bob", "Impersonate_Group": "g"}
    info = ask("POST", path, {}, **as_bob).json()["status"]["userInfo"]
    assert info == {"username": "bob", "groups": ["g", "system:authenticated"]}
    answer = ask("POST", path, {}, token="plain-user-token", **as_bob)
    assert reason(answer) == (403, "Forbidden")


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    huge = b'{"data":{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    try:
        answer = ask("POST", path, huge)
    except urllib3.exceptions.HTTPError:
        return  # the server hung up while we were still talking, as it may
    assert reason(answer) == (413, "RequestEntityTooLarge")


def test_headers_beyond_the_limit_are_refused(ask: Ask) -> None:
    assert ask("GET", "/api/v1/pods", X_Long="x" * 100_000).status == 400


def test_an_object_beyond_the_limit_is_refused(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = ask("POST", path, config_map(data={"a": "x" * 2_000_000}))
    assert answer.status in (413, 422)


@pytest.mark.parametrize(
    ("body", "media", "expected"),
    [
        (b"{", "application/json", (400, "BadRequest")),
        (b"[]", "application/json", (400, "BadRequest")),
        (b"[" * 5000, "application/json", (400, "BadRequest")),
        (b"\xff\xfe", "application/json", (400, "BadRequest")),
        (b"a: [", "application/yaml", (400, "BadRequest")),
        (b"a: &x [1]\nb: *x\n", "application/yaml", (400, "BadRequest")),
        (b"- " * 3000, "application/yaml", (400, "BadRequest")),
        (b"<a/>", "application/xml", (415, "UnsupportedMediaType")),
        (b"k8s\x00\xff\xff", "application/vnd.kubernetes.protobuf", (400, "BadRequest")),
        (b"nothing", "application/vnd.kubernetes.protobuf", (400, "BadRequest")),
    ],
)
def test_malformed_bodies_are_named(
    ask: Ask, namespace: str, body: bytes, media: str, expected: tuple[int, str]
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert reason(ask("POST", path, body, Content_Type=media)) == expected


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/nowhere.example/v1/things", 404),
        ("GET", "/api/v1/unicorns", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/some-pod", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/nonsense", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/log/more/and/more", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/exec", 404),
        ("GET", "/nonsense", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/namespaces/default/pods/p", 405),
        ("DELETE", "/api/v1/namespaces/default/pods/p/status", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("GET", "/api/v1/pods?labelSelector=a%20b%20c", 400),
        ("GET", "/api/v1/pods?fieldSelector=spec.color%3Dred", 400),
        ("GET", "/api/v1/pods?limit=many", 400),
        ("GET", "/api/v1/pods?continue=nonsense", 400),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=abc", 400),
        ("GET", "/api/v1/pods?watch=1&sendInitialEvents=true", 422),
        ("DELETE", "/api/v1/namespaces/default/pods/p?propagationPolicy=Sideways", 422),
        ("DELETE", "/api/v1/namespaces/default/pods/p?dryRun=Some", 422),
        ("DELETE", "/api/v1/namespaces", 405),
    ],
)
def test_what_is_not_served_is_refused_in_order(
    ask: Ask, method: str, path: str, code: int
) -> None:
    body = {} if method in ("POST", "PUT") else None
    assert reason(ask(method, path, body))[0] == code


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Secret"}, "kind of the object (Secret)"),
        ({"apiVersion": "v2"}, "apiVersion of the object (v2)"),
        ({"metadata": {"name": "x", "namespace": "elsewhere"}}, "namespace of the provided object"),
        ({"metadata": "name"}, "metadata must be an object"),
    ],
)
def test_a_body_must_agree_with_its_url(
    ask: Ask, namespace: str, change: dict[str, Any], words: str
) -> None:
    answer = ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map() | change)
    assert answer.status == 400
    assert words in answer.json()["message"]


def test_yaml_is_read_with_times_as_text(ask: Ask, namespace: str, store: MemoryStore) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y, annotations: {at: 2026-01-01}}\n"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert ask("POST", path, text, Content_Type="application/yaml").status == 201
    annotations = store.get(r.CONFIG_MAP, "y", namespace)["metadata"]["annotations"]
    assert annotations == {"at": "2026-01-01"}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "PodList"),
        ("*/*", "PodList"),
        ("application/vnd.kubernetes.protobuf,application/json", "PodList"),
        (f"{TABLE},application/json", "Table"),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "PartialObjectMetadataList",
        ),
        ("application/json;as=Mystery;g=meta.k8s.io;v=v1,application/json", "PodList"),
    ],
)
def test_lists_take_the_form_that_is_asked_for(ask: Ask, accept: str, kind: str) -> None:
    assert ask("GET", "/api/v1/pods", Accept=accept).json()["kind"] == kind


def test_a_form_that_we_do_not_have_is_refused(ask: Ask) -> None:
    answer = ask("GET", "/api/v1/pods", Accept="application/vnd.kubernetes.protobuf")
    assert reason(answer) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Node")]
)
def test_table_rows_carry_what_was_asked_for(
    ask: Ask, store: MemoryStore, include: str, kind: str | None
) -> None:
    name = f"node-{include.lower()}"
    store.create(r.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    path = f"/api/v1/nodes?includeObject={include}&fieldSelector=metadata.name%3D{name}"
    (row,) = ask("GET", path, Accept=TABLE).json()["rows"]
    assert row.get("object", {}).get("kind") == kind


def events(response: urllib3.BaseHTTPResponse) -> list[dict[str, Any]]:
    return [json.loads(line) for line in response.data.splitlines()]


def test_a_watch_ends_when_its_time_is_over(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods?watch=true&timeoutSeconds=1"
    assert events(ask("GET", path)) == []


def test_initial_events_end_with_a_bookmark(ask: Ask, namespace: str) -> None:
    ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("one"))
    path = (
        f"/api/v1/namespaces/{namespace}/configmaps?watch=1&timeoutSeconds=1&sendInitialEvents=true"
        "&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Done"
    )
    added, end = events(ask("GET", path))
    assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "one")
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_of_tables_names_its_columns_once(ask: Ask, namespace: str) -> None:
    for name in ("one", "two"):
        ask("POST", f"/api/v1/namespaces/{namespace}/secrets", config_map(name, kind="Secret"))
    path = f"/api/v1/namespaces/{namespace}/secrets?watch=1&timeoutSeconds=1"
    seen = [e["object"] for e in events(ask("GET", path, Accept=TABLE))]
    assert [t["kind"] for t in seen] == ["Table", "Table"]
    assert [bool(t["columnDefinitions"]) for t in seen] == [True, False]
    assert [t["rows"][0]["cells"][0] for t in seen] == ["one", "two"]


def test_a_compacted_version_is_gone(ask: Ask, namespace: str, store: MemoryStore) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    before = ask("POST", path, config_map()).json()["metadata"]["resourceVersion"]
    ask("PATCH", f"{path}/cm", {"data": {"a": "b"}}, Content_Type="application/merge-patch+json")
    store.compact()
    answer = ask("GET", f"{path}?watch=1&resourceVersion={before}&timeoutSeconds=1")
    if answer.status == 200:
        (event,) = events(answer)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    else:
        assert reason(answer) == (410, "Expired")


def test_a_version_of_another_life_is_gone(ask: Ask, store: MemoryStore) -> None:
    path = f"/api/v1/pods?watch=1&resourceVersion={int(store.version) + 1000}"
    assert reason(ask("GET", path)) == (410, "Expired")


def test_stopping_ends_open_watches_at_once() -> None:
    with RestServer(MemoryStore(), tokens={"administrator-token": "a"}) as server:
        context = ssl.create_default_context(cadata=server.connection().ca_pem.decode())  # type: ignore[union-attr]
        pool = urllib3.PoolManager(ssl_context=context, retries=False)
        stream = pool.request(
            "GET",
            server.url + "/api/v1/pods?watch=1",
            headers={"Authorization": "Bearer administrator-token"},
            preload_content=False,
        )
        server.stop()
        assert stream.read() == b"", "a clean end, not a broken connection"


def test_patch_types_are_told_by_their_media_type(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    ask("POST", path, config_map(data={"a": "1"}))
    assert reason(ask("PATCH", f"{path}/cm", {}, Content_Type="application/json"))[0] == 415
    strategic = "application/strategic-merge-patch+json"
    answer = ask(
        "PATCH", "/apis/scheduling.run.ai/v2/queues/default-queue", {}, Content_Type=strategic
    )
    assert reason(answer)[0] == 415, "custom resources know no strategic merge"
    answer = ask("PATCH", f"{path}/cm", {}, Content_Type="application/apply-patch+yaml")
    assert reason(answer)[0] == 422, "an apply patch needs a manager"
    steps = [{"op": "test", "path": "/data/a", "value": "2"}]
    answer = ask("PATCH", f"{path}/cm", steps, Content_Type="application/json-patch+json")
    assert answer.status in (409, 422)


def test_unknown_fields_are_warned_of(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = ask("POST", f"{path}?fieldValidation=Warn", config_map("w", colour="x"))
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"colour\\""'
    answer = ask("POST", f"{path}?fieldValidation=Strict", config_map("s", colour="x"))
    assert "strict decoding error" in answer.json()["message"]
    assert ask("POST", f"{path}?fieldValidation=Ignore", config_map("i", colour="x")).status == 201


def test_a_patch_with_unknown_fields_changes_nothing(ask: Ask, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    ask("POST", path, config_map())
    for media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        patch = {"data": {"a": "b"}, "colour": "x", "$setElementOrder/x": []}
        where = f"{path}/cm?fieldValidation=Strict"
        assert ask("PATCH", where, patch, Content_Type=media).status == 400
        assert "data" not in ask("GET", f"{path}/cm").json()
        assert ask("PATCH", where, {"colour": None}, Content_Type=media).status == 200


def test_openapi_documents_are_cached_by_their_hash(ask: Ask) -> None:
    paths = ask("GET", "/openapi/v3").json()["paths"]
    where = paths["apis/scheduling.run.ai/v2"]["serverRelativeURL"]
    first = ask("GET", where)
    assert "immutable" in first.headers["Cache-Control"]
    again = ask("GET", where, If_None_Match=first.headers["ETag"])
    assert (again.status, again.data) == (304, b"")
    document = first.json()
    assert "/apis/scheduling.run.ai/v2/queues/{name}" in document["paths"]
    names = {ref for ref in _references(document)}
    assert names <= set(document["components"]["schemas"]), "every reference resolves"


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in _references(item)]
    if not isinstance(node, dict):
        return []
    found = [item for value in node.values() for item in _references(value)]
    if isinstance(node.get("$ref"), str):
        found.append(node["$ref"].rpartition("/")[2])
    return found


def test_swagger_is_there_for_older_clients(ask: Ask) -> None:
    binary = ask("GET", "/openapi/v2", Accept=gnostic.MEDIA_TYPE.replace(".v1.0", "@v1.0"))
    assert binary.headers["Content-Type"] == gnostic.MEDIA_TYPE
    assert binary.data.startswith(b"\x0a\x032.0")
    document = ask("GET", "/openapi/v2").json()
    assert document["swagger"] == "2.0"
    assert set(_references(document)) <= set(document["definitions"])


def test_tokens_of_other_paths_do_not_leak_into_errors(ask: Ask) -> None:
    said = ask("GET", "/api/v1/pods", token="a-secret-token-nobody-should-see").data
    assert b"secret-token" not in said

"""Who gets in, and what becomes of garbage."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from kai_ray.console.answers import BODY_LIMIT
from kai_ray.console.app import SECURITY

from .conftest import Client, World, world_of


@pytest.fixture(scope="module")
def world():
    with world_of() as made:
        made.queue("vision", quota=8)
        made.run()
        yield made


@pytest.fixture
def stranger(world: World) -> Client:
    return Client(world.port, token="")


READS = ("/overview", "/clusters", "/queues", "/nodes", "/jobs", "/decisions", "/live", "/nothing")


@pytest.mark.parametrize("path", READS)
def test_without_a_token_nothing_is_told(stranger: Client, path: str) -> None:
    for token in ("", "wrong", "ümlaut", "x" * 5000):
        stranger.token = token.encode().decode("latin-1")
        answer = stranger.send("GET", f"/api/v1{path}")
        assert answer.status == 401, token
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "vision" not in answer.body.decode()


def test_a_stranger_is_told_how_to_sign_in_and_no_more(stranger: Client) -> None:
    told = stranger.get("/session")
    assert (told["signedIn"], told["user"], told["contexts"]) == (False, "", [])
    assert told["signIn"]


def test_who_has_signed_in_is_told_what_they_may(world: World) -> None:
    told = world.get("/session")
    assert (told["signedIn"], told["user"], told["home"]) == (True, "kai-admin", "here")
    assert told["mayEditQueues"] and told["namespaces"] is None
    assert [c["state"] for c in told["contexts"]] == ["ok"]


def test_other_names_than_loopback_are_not_answered(world: World) -> None:
    """A page of another site that has its name point here gets nothing."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert world.send("GET", "/api/v1/overview", Host=host).status == 403, host
        assert world.send("GET", "/", Host=host).status == 403, host
    for host in ("localhost", f"127.0.0.1:{world.port}", "[::1]:80", "LOCALHOST:1"):
        assert world.send("GET", "/api/v1/overview", Host=host).status == 200, host


def test_no_cookie_is_set_and_browsers_are_kept_on_a_short_lead(world: World) -> None:
    for path in ("/", "/api/v1/overview", "/api/v1/nothing", "/nothing.js", "/api/v1/openapi.json"):
        answer = world.send("GET", path)
        assert "set-cookie" not in answer.headers
        for name, value in SECURITY.items():
            assert answer.headers[name.lower()] == value, path
    policy = SECURITY["Content-Security-Policy"]
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/static/../../app.py",
        "/%2e%2e/app.py",
        "/..%2fapp.py",
        "//etc/passwd.txt",
        "/%00.js",
        "/a\\..\\app.py",
        "/js/../../shapes/base.py",
    ],
)
def test_only_files_of_the_pages_are_served(world: World, path: str) -> None:
    answer = world.send("GET", path)
    assert answer.status in (400, 404), answer.body[:100]


def test_every_deep_link_is_the_index(world: World) -> None:
    index = world.send("GET", "/")
    assert index.headers["content-type"].startswith("text/html")
    for path in ("/jobs", "/jobs/default/Job/x", "/queues/vision?x=1.js"):
        assert world.send("GET", path).body == index.body
    again = world.send("GET", "/", If_None_Match=index.headers["etag"])
    assert (again.status, again.body) == (304, b"")


# ---------------------------------------------------------------------- writes


def change(world: World, **headers: str | None):
    return world.write("PATCH", "/queues/vision", {"priority": 100}, **headers)


def test_a_write_needs_what_no_other_site_can_send(world: World) -> None:
    assert change(world).status == 200
    assert change(world, X_Kai_Request=None).status == 403
    assert change(world, X_Kai_Request="2").status == 403
    assert change(world, Sec_Fetch_Site="cross-site").status == 403
    assert change(world, Sec_Fetch_Site="same-site").status == 403
    assert change(world, Sec_Fetch_Site="same-origin").status == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        assert change(world, Content_Type=kind).status == 415, kind


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"gpu": {"quota": NaN}}',
        b'{"gpu": {"quota": 1e999}}',
        b'{"gpu": {"quota": -2}}',
        b'{"gpu": {"quota": "8"}}',
        b'{"gpu": {"quota": 8, "limitt": 9}}',
        b'{"gpu": null, "surprise": 1}',
        b'{"priority": 1e10}',
        b'{"priority": 2147483648}',
        b'{"state": "Deleted"}',
        b'{"name": "x"}',
        b"{}",
        b'{"gpu": {}}',
        b'{"displayName": "' + b"x" * 300 + b'"}',
        b"[" * 30000,
        b'{"gpu":' * 9000,
        b'{"gpu": {"quota": ' + b"9" * 400 + b"}}",
    ],
)
def test_garbage_is_refused_and_changes_nothing(world: World, body: bytes) -> None:
    before = world.get("/queues/vision")["resourceVersion"]
    answer = world.send("PATCH", "/api/v1/queues/vision", body)
    assert answer.status in (400, 422), answer.body
    assert answer.error["message"]
    assert world.get("/queues/vision")["resourceVersion"] == before


def test_a_refusal_names_the_field(world: World) -> None:
    def field(body: object) -> str:
        return world.write("PATCH", "/queues/vision", body).error["field"]

    assert field({"gpu": {"quota": "8"}}) == "gpu.quota"
    assert field({"gpu": {"quota": 9, "limit": 8}}) == "gpu.quota"
    assert field({"cpu": {"weight": -1}}) == "cpu.weight"
    assert field({"state": "Gone"}) == "state"


def test_ten_megabytes_are_refused_before_they_have_come(world: World) -> None:
    for chunked in (False, True):
        with socket.create_connection(("127.0.0.1", world.port), timeout=10) as raw:
            head = (
                "PATCH /api/v1/queues/vision HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Authorization: Bearer {world.token}\r\nX-Kai-Request: 1\r\n"
                "Content-Type: application/json\r\n"
            )
            if chunked:
                raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
                block = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
                raw.sendall(block * 2)
            else:
                raw.sendall(f"{head}Content-Length: {10 << 20}\r\n\r\n".encode())
            assert b" 413 " in raw.recv(4096).split(b"\r\n")[0]
    answer = world.send("PATCH", "/api/v1/queues/vision", b" " * (BODY_LIMIT + 1))
    assert answer.status == 413
    assert world.get("/overview")["state"]["ok"]


def test_heads_and_addresses_beyond_measure(world: World) -> None:
    assert world.send("GET", "/api/v1/overview", X_Much="x" * 40_000).status in (400, 413, 431)
    assert world.send("GET", f"/api/v1/jobs?search={'x' * 5000}").status == 400
    assert world.send("GET", f"/api/v1/queues/{'x' * 5000}").status == 404
    assert world.get("/overview")["state"]["ok"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("offset=1e3", "offset"),
        ("offset=" + "9" * 30, "offset"),
        ("sort=colour", "sort"),
        ("limit=%D9%A3", "limit"),
    ],
)
def test_words_of_a_query_that_mean_nothing(world: World, query: str, field: str) -> None:
    answer = world.send("GET", f"/api/v1/jobs?{query}")
    assert (answer.status, answer.error["field"]) == (400, field)


def test_other_methods_and_addresses(world: World) -> None:
    assert world.send("DELETE", "/api/v1/queues/vision").status == 405
    assert world.send("GET", "/api/v1/queues/preview").status == 404  # a queue of that name
    assert world.send("POST", "/").status == 405
    assert world.send("GET", "/api/v2/overview").status == 404
    assert world.send("GET", "/api/v1/jobs/default/Job").status == 404
    assert world.send("GET", "/api/v1/jobs//Job/x").status == 404
    assert world.send("GET", "/api/v1/overview?context=elsewhere").status == 404
    assert world.send("HEAD", "/api/v1/overview").body == b""


def test_what_is_no_http_does_no_harm(world: World) -> None:
    for noise in (
        b"\x16\x03\x01\x02\x00",
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 99,
    ):
        with socket.create_connection(("127.0.0.1", world.port), timeout=10) as raw:
            raw.sendall(noise)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(4096)
    assert world.get("/overview")["state"]["ok"]


def test_names_with_odd_characters_find_their_way(world: World) -> None:
    for name in ("a%2Fb", "%F0%9F%90%8D", "..", "%3Cscript%3E"):
        answer = world.send("GET", f"/api/v1/queues/{name}")
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/json"
        json.loads(answer.body)


def test_an_answer_that_nobody_waits_for_is_dropped(world: World) -> None:
    for _ in range(20):
        connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=5)
        connection.request(
            "GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {world.token}"}
        )
        connection.close()
    assert world.get("/overview")["state"]["ok"]

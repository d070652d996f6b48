"""The port over HTTP where the wire matters; the rest of its behaviour is the contract suite's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import kube, kube_watch
from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort, path_of
from kai_ray.cluster.kube_http import error_of
from kai_ray.cluster.kube_pool import proxy_of
from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WatchEvent,
    Write,
)
from kai_ray.cluster.rest import RestServer

Answer = tuple[int, dict[str, str], Any]


@contextmanager
def scripted(*answers: Answer) -> Iterator[tuple[KubePort, list[str]]]:
    """A port to a server that gives these answers in turn, and the requests that it saw."""
    seen: list[str] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append(f"{self.command} {self.path}")
            code, headers, body = left.pop(0) if len(left) > 1 else left[0]
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    port = KubePort(Connection(server=f"http://127.0.0.1:{server.server_port}"))
    try:
        yield port, seen
    finally:
        port.close()
        server.shutdown()
        server.server_close()


def status(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}


BUSY: Answer = (429, {"Retry-After": "0"}, status(429, "TooManyRequests"))
FINE: Answer = (200, {}, {"metadata": {"name": "p", "resourceVersion": "1"}})


def test_a_busy_server_is_asked_again() -> None:
    with scripted(BUSY, BUSY, FINE) as (port, seen):
        assert port.get(r.POD, "p", "n")["metadata"]["name"] == "p"
    assert seen == ["GET /api/v1/namespaces/n/pods/p"] * 3


def test_a_server_that_stays_busy_is_given_up() -> None:
    with scripted(BUSY) as (port, seen), pytest.raises(TooManyRequests) as caught:
        port.get(r.POD, "p", "n")
    assert caught.value.retry_after_s == 0
    assert len(seen) == 4


def test_a_spent_budget_is_told_at_once() -> None:
    with scripted(BUSY) as (port, seen), pytest.raises(TooManyRequests):
        port.evict("n", "p")
    assert len(seen) == 1


def test_a_write_whose_fate_is_unknown_is_not_repeated() -> None:
    pod = {"metadata": {"name": "p", "namespace": "n"}}
    with scripted((500, {}, b"oops"), FINE) as (port, seen), pytest.raises(ApiError, match="oops"):
        port.create(r.POD, pod)
    assert len(seen) == 1


def test_an_answer_that_is_not_json_asks_whether_this_is_an_api_server() -> None:
    words = r"is http://127\.0\.0\.1:\d+ a Kubernetes API server"
    with scripted((200, {}, b"<html>")) as (port, _), pytest.raises(ApiError, match=words):
        port.get(r.POD, "p", "n")


def test_items_of_a_real_list_learn_what_they_are() -> None:
    listed = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "p"}}]}
    with scripted((200, {}, listed)) as (port, _):
        page = port.list(r.POD)
    assert page.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]
    assert page.resource_version == "7"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (403, "Forbidden", Forbidden),
        (401, "Unauthorized", Unauthorized),
        (503, "", Unavailable),
        (504, "Timeout", Unavailable),
        (502, "", Unavailable),
    ],
)
def test_refusals_become_the_ports_errors(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_of(code, json.dumps(status(code, reason, name="p")).encode())
    assert type(error) is kind
    assert (error.code, error.details) == (code, {"name": "p"})


def test_a_refusal_we_have_no_class_for_keeps_its_code() -> None:
    error = error_of(405, json.dumps(status(405, "MethodNotAllowed")).encode())
    assert (type(error), error.code, error.reason) == (ApiError, 405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ((r.POD, None), "/api/v1/pods"),
        ((r.POD, "n", "p", "status"), "/api/v1/namespaces/n/pods/p/status"),
        ((r.POD, "", "p"), "/api/v1/namespaces/default/pods/p"),
        ((r.NODE, "", "a/b"), "/api/v1/nodes/a%2Fb"),
        ((r.QUEUE, None, "q"), "/apis/scheduling.run.ai/v2/queues/q"),
    ],
)
def test_paths(args: tuple[Any, ...], path: str) -> None:
    assert path_of(*args) == path


def test_nobody_there_is_unavailable() -> None:
    port = KubePort(Connection(server="http://127.0.0.1:9"))
    with pytest.raises(Unavailable, match=r"no answer from http://127\.0\.0\.1:9"):
        port.create(r.POD, {"metadata": {"name": "p"}})


def test_a_server_with_another_ca_is_not_trusted(server: RestServer) -> None:
    stranger = replace(server.connection(), ca_pem=None)
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        KubePort(stranger).get(r.NODE, "n")
    careless = KubePort(replace(stranger, insecure=True))
    assert careless.list(r.NAMESPACE).items


def test_a_token_file_is_read_when_it_is_needed(server: RestServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(server.token + "\n")
    port = KubePort(replace(server.connection(), token="", token_file=str(file)))
    assert port.list(r.NAMESPACE).items
    with pytest.raises(Unauthorized, match="cannot read the token file"):
        KubePort(replace(port.connection, token_file=str(tmp_path / "none"))).list(r.NODE)


def test_impersonation_reaches_the_server(server: RestServer) -> None:
    who = (("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    port = KubePort(replace(server.connection(), impersonate=who))
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = port.raw("POST", path, {})["status"]["userInfo"]
    assert info["groups"][:2] == ["a", "b"]
    with pytest.raises(Forbidden, match='User "bob" cannot list resource "nodes"'):
        port.list(r.NODE)


def test_writes_of_a_batch_run_side_by_side(port: KubePort, namespace: str) -> None:
    def config_map(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}}

    names = [f"cm-{i}" for i in range(20)] + ["cm-0"]
    results = port.batch([Write(port.create, (r.CONFIG_MAP, config_map(n))) for n in names])
    assert [o["metadata"]["name"] for o in results[:-1]] == names[:-1]
    assert isinstance(results[-1], ApiError) and results[-1].code == 409
    assert port.batch([]) == []


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://api.example.com:6443", "http://secure:1"),
        ("http://api.example.com:6443", "http://plain:2"),
        ("https://in.corp.example:6443", ""),
        ("https://127.0.0.1:6443", ""),
        ("https://[::1]:6443", ""),
        ("https://localhost:6443", ""),
    ],
)
def test_proxies_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, server: str, proxy: str
) -> None:
    monkeypatch.setenv("https_proxy", "http://secure:1")
    monkeypatch.setenv("http_proxy", "plain:2")
    monkeypatch.setenv("no_proxy", ".corp.example")
    assert proxy_of(server) == proxy


# --- watches -------------------------------------------------------------------------------------


def take(watch: Any, count: int = 1, seconds: float = 10.0) -> list[WatchEvent]:
    """The next events that are no bookmarks."""
    found: list[WatchEvent] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        event = watch.next(0.5)
        if event is not None and event.type != "BOOKMARK":
            found.append(event)
    return found


def make(store: MemoryStore, name: str, **data: str) -> None:
    body = {"metadata": {"name": name, "namespace": "default"}, "data": data}
    store.create(r.CONFIG_MAP, body)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[tuple[MemoryStore, Callable[[], RestServer]]]:
    """A store, and a way to (re)start its server at one address with one token."""
    store = MemoryStore()
    install_defaults(store)
    running: list[RestServer] = []

    def start() -> RestServer:
        port = int(running[-1].url.rpartition(":")[2]) if running else 0
        for server in running:
            server.stop()
        running.append(RestServer(store, port=port, folder=tmp_path).start())
        return running[-1]

    yield store, start
    running[-1].stop()


def test_a_watch_outlives_its_server(restartable: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_watch, "BACKOFF_LAST_S", 0.2)
    store, start = restartable
    port = KubePort(start().connection())
    rung = threading.Event()
    since = port.list(r.CONFIG_MAP).resource_version
    watch = port.watch(r.CONFIG_MAP, resource_version=since, on_event=rung.set)
    make(store, "before")
    assert [e.object["metadata"]["name"] for e in take(watch)] == ["before"]
    assert rung.is_set()
    running = start()
    make(store, "while-restarting")
    store.delete(r.CONFIG_MAP, "before", "default")
    seen = [(e.type, e.object["metadata"]["name"]) for e in take(watch, 2)]
    assert seen == [("ADDED", "while-restarting"), ("DELETED", "before")]
    assert running.token == port.connection.token, "the folder keeps token and certificate"
    watch.close()


def test_a_watch_that_missed_too_much_is_gone(
    restartable: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_watch, "BACKOFF_LAST_S", 0.2)
    store, start = restartable
    server = start()
    port = KubePort(server.connection())
    since = port.list(r.CONFIG_MAP).resource_version
    watch = port.watch(r.CONFIG_MAP, resource_version=since)
    server.stop()
    make(store, "missed")
    store.compact()
    start()
    with pytest.raises(Gone):
        take(watch, 1)
    watch.close()


def test_a_closed_watch_ends_its_thread(port: KubePort) -> None:
    watch = port.watch(r.POD)
    name = f"watch {path_of(r.POD)}"
    assert any(t.name == name for t in threading.enumerate())
    watch.close()
    end = time.monotonic() + 5
    while any(t.name == name for t in threading.enumerate()):
        assert time.monotonic() < end, "the reader still runs"
        time.sleep(0.01)
    assert watch.next(0.1) is None


def test_a_watch_that_may_not_be_opened_says_so(server: RestServer) -> None:
    port = KubePort(server.connection("plain-user-token"))
    with pytest.raises(Forbidden):
        port.watch(r.POD)


def test_a_reader_that_is_far_ahead_waits_for_its_taker(
    port: KubePort, store: MemoryStore, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_watch, "WAITING_LIMIT", 10)
    since = port.list(r.CONFIG_MAP, namespace).resource_version
    watch = port.watch(r.CONFIG_MAP, namespace, resource_version=since)
    for i in range(50):
        store.create(r.CONFIG_MAP, {"metadata": {"name": f"c-{i}", "namespace": namespace}})
    time.sleep(0.2)
    names = [e.object["metadata"]["name"] for e in take(watch, 50)]
    assert names == [f"c-{i}" for i in range(50)]
    watch.close()


def test_importing_the_port_is_cheap() -> None:
    code = (
        "import sys, kai_ray.cluster.kube; "
        "heavy = {'numpy', 'ray', 'kubernetes', 'starlette', 'uvicorn'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_connect_reads_the_kubeconfig(server: RestServer, tmp_path: Path) -> None:
    path = server.write_kubeconfig(tmp_path / "config", "here")
    port = kube.connect(str(path), "here")
    assert port.namespace == "default"
    assert port.get(r.NAMESPACE, "default")["kind"] == "Namespace"

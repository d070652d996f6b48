"""Credentials that change while we run: nobody restarts us for that.

The server is a small one over TLS that knows who may come: tokens, and client certificates by name.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.cluster import kube, kube_access
from kai_ray.cluster import resources as r
from kai_ray.cluster.kubeconfig import Connection, KubeconfigError
from kai_ray.cluster.port import Unauthorized, Unavailable
from tests.real.pki import Authority, Pair

POD = {"metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"}}
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}


class Guarded:
    """Lets in who is in `welcome`: "token" values, or common names of client certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.welcome: set[str] = set()
        self.asked: list[str] = []
        self.clients = Authority("clients")
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self, authority: Authority) -> None:
        guarded = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                who = guarded._who(self)
                guarded.asked.append(who)
                code = 200 if who in guarded.welcome else 401
                body = POD if code == 200 else {"kind": "Status", "code": 401, "message": "who?"}
                if code == 200 and "watch=true" in self.path:
                    body = BOOKMARK
                data = json.dumps(body).encode() + b"\n"
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None: ...

        pair = self._file("server", authority.server(["127.0.0.1"]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.clients.pair.certificate.decode())

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request: Any, client_address: Any) -> None:
                try:
                    wrapped = context.wrap_socket(request, server_side=True)
                except (ssl.SSLError, OSError):
                    return  # it does not trust us
                super().finish_request(wrapped, client_address)  # type: ignore[arg-type]

            def handle_error(self, request: Any, client_address: Any) -> None: ...

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _who(self, handler: BaseHTTPRequestHandler) -> str:
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        peer: Any = handler.connection.getpeercert()  # type: ignore[attr-defined]
        names = [v for rdn in (peer or {}).get("subject", ()) for k, v in rdn if k == "commonName"]
        return token or (names[0] if names else "nobody")

    def _file(self, name: str, pair: Pair) -> Path:
        path = self.folder / f"{name}.pem"
        path.write_bytes(pair.certificate + pair.key)
        return path


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Guarded]:
    monkeypatch.setattr(kube_access, "ASK_AGAIN_S", 0.0)
    made = Guarded(tmp_path)
    made.start(authority)
    (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
    yield made
    made.stop()


def config(server: Guarded, user: dict[str, Any]) -> Path:
    """Writes the kubeconfig."""
    path = server.folder / "config"
    cluster = {"server": server.url, "certificate-authority": "ca.crt"}
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def get(port: kube.KubePort) -> str:
    return port.get(r.POD, "p", "n")["metadata"]["name"]


def test_a_rotated_token_file_is_read_when_the_old_token_is_refused(server: Guarded) -> None:
    token = server.folder / "token"
    token.write_text("one")
    server.welcome = {"one"}
    port = kube.connect(str(config(server, {"tokenFile": "token"})))
    assert get(port) == "p"
    token.write_text("two\n")
    server.welcome = {"two"}
    assert get(port) == "p"
    assert server.asked == ["one", "one", "two"]
    port.close()


def test_a_token_is_replaced_before_anybody_refuses_it(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.welcome = {"one", "two"}
    (server.folder / "token").write_text("one")
    port = kube.connect(str(config(server, {"tokenFile": "token"})))
    get(port)
    (server.folder / "token").write_text("two")
    monkeypatch.setattr(kube_access, "FRESH_S", 0.0)
    get(port)
    assert server.asked == ["one", "two"]
    port.close()


def test_a_kubeconfig_that_is_written_anew_is_read_anew(server: Guarded) -> None:
    server.welcome = {"one"}
    port = kube.connect(str(config(server, {"token": "one"})))
    get(port)
    config(server, {"token": "two"})
    server.welcome = {"two"}
    assert get(port) == "p"
    port.close()


def test_a_half_written_kubeconfig_does_not_stop_us(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.welcome = {"one"}
    path = config(server, {"token": "one"})
    port = kube.connect(str(path))
    path.write_text("clusters: [")
    monkeypatch.setattr(kube_access, "FRESH_S", 0.0)
    assert get(port) == "p"
    port.close()


def test_a_client_certificate_is_renewed_on_disk(server: Guarded) -> None:
    def issue(name: str) -> None:
        pair = server.clients.client(name)
        (server.folder / "client.crt").write_bytes(pair.certificate)
        (server.folder / "client.key").write_bytes(pair.key)

    issue("first")
    server.welcome = {"first"}
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    port = kube.connect(str(config(server, user)))
    assert get(port) == "p"
    issue("second")
    server.welcome = {"second"}
    assert get(port) == "p"
    assert server.asked == ["first", "first", "second"]
    port.close()


def test_an_authority_is_replaced(server: Guarded) -> None:
    server.welcome = {"t"}
    port = kube.connect(str(config(server, {"token": "t"})))
    assert get(port) == "p"
    server.stop()
    port.close()  # as a server that restarts does to its connections
    new = Authority("new")
    server.start(new)
    with pytest.raises(Unavailable, match=r"certificate"):
        get(port)
    (server.folder / "ca.crt").write_bytes(new.pair.certificate)
    assert get(port) == "p"
    port.close()


def test_a_watch_goes_on_with_the_new_token(server: Guarded) -> None:
    (server.folder / "token").write_text("one")
    server.welcome = {"one"}
    port = kube.connect(str(config(server, {"tokenFile": "token"})))
    watch = port.watch(r.POD, resource_version="1")
    try:
        event = watch.next(10)
        assert event is not None and event.type == "BOOKMARK"
        (server.folder / "token").write_text("two")
        server.welcome = {"two"}
        end = time.monotonic() + 10
        while server.asked.count("two") < 2:
            assert time.monotonic() < end, server.asked
            watch.next(0.1)
    finally:
        watch.close()
        port.close()


def test_who_is_not_welcome_is_told_so_and_does_not_insist(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_access, "ASK_AGAIN_S", 60.0)
    port = kube.connect(str(config(server, {"token": "bad"})))
    for _ in range(3):
        with pytest.raises(Unauthorized, match=r"who\?"):
            get(port)
    assert server.asked == ["bad"] * 3
    port.close()


# Programs that give credentials


def plugin(server: Guarded, status: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A user whose program answers with the status in a file, and writes down what it was told."""
    (server.folder / "status.json").write_text(json.dumps(status))
    script = server.folder / "plugin.sh"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$KUBERNETES_EXEC_INFO $WHO $*" >> {server.folder}/calls\n'
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",\'\n'
        f"echo '\"status\":'; cat {server.folder}/status.json; echo '}}'\n"
    )
    script.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(script), **settings}}


def calls(server: Guarded) -> list[str]:
    return (server.folder / "calls").read_text().splitlines()


def test_a_program_is_asked_once_and_again_when_its_token_is_refused(server: Guarded) -> None:
    user = plugin(server, {"token": "one"}, args=["login"], env=[{"name": "WHO", "value": "me"}])
    server.welcome = {"one"}
    port = kube.connect(str(config(server, user)))
    get(port)
    get(port)
    assert len(calls(server)) == 1 and calls(server)[0].endswith(" me login")
    plugin(server, {"token": "two"})
    server.welcome = {"two"}
    assert get(port) == "p"
    assert len(calls(server)) == 2
    port.close()


def test_a_program_is_asked_before_its_token_expires(server: Guarded) -> None:
    server.welcome = {"one", "two"}
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    user = plugin(server, {"token": "one", "expirationTimestamp": soon})
    port = kube.connect(str(config(server, user)))
    plugin(server, {"token": "two", "expirationTimestamp": later})
    get(port)
    get(port)
    assert server.asked == ["two", "two"]
    port.close()


def test_a_program_may_give_a_client_certificate(server: Guarded) -> None:
    def status(name: str) -> dict[str, str]:
        pair = server.clients.client(name)
        return {
            "clientCertificateData": pair.certificate.decode(),
            "clientKeyData": pair.key.decode(),
        }

    server.welcome = {"first"}
    port = kube.connect(str(config(server, plugin(server, status("first")))))
    assert get(port) == "p"
    plugin(server, status("second"))
    server.welcome = {"second"}
    assert get(port) == "p"
    port.close()


def test_a_program_is_told_of_the_cluster_if_it_asks(server: Guarded) -> None:
    server.welcome = {"one"}
    user = plugin(server, {"token": "one"}, provideClusterInfo=True)
    port = kube.connect(str(config(server, user)))
    told = json.loads(calls(server)[0].partition("} ")[0] + "}")["spec"]
    assert told["cluster"]["server"] == server.url
    assert base64.b64decode(told["cluster"]["certificate-authority-data"]).startswith(b"-----BEGIN")
    port.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no json", "gave no ExecCredential"),
        ("echo '{}'", "gave no ExecCredential"),
        ("echo broken >&2; exit 3", "ended with 3: broken"),
        (None, "is not installed"),
    ],
)
def test_a_program_that_gives_nothing_is_named(
    server: Guarded, script: str | None, words: str
) -> None:
    path = server.folder / "plugin.sh"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}
    with pytest.raises(KubeconfigError, match=words) as failure:
        kube.connect(str(config(server, user)))
    assert "plugin.sh" in str(failure.value)


def test_a_program_beside_the_kubeconfig_is_found_there(server: Guarded) -> None:
    server.welcome = {"one"}
    user = plugin(server, {"token": "one"})
    user["exec"]["command"] = "./plugin.sh"
    port = kube.connect(str(config(server, user)))
    assert get(port) == "p"
    port.close()


def test_credentials_are_in_no_representation() -> None:
    connection = Connection("https://h", token="secret", exec_user={"command": "c"})
    assert "secret" not in repr(connection)


def test_an_oidc_user_brings_its_token(server: Guarded) -> None:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'none'})}.{part({'exp': int(time.time()) + 3600})}.c2ln"
    server.welcome = {token}
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    port = kube.connect(str(config(server, user)))
    assert get(port) == "p"
    port.close()

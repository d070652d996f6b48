"""The webhook's door: TLS with a certificate that changes, and bounds on what may come in."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import urllib3

from kai_ray.admission import certificates, default_admission
from kai_ray.admission.server import LARGEST_BODY, WebhookServer
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import AdmissionRequest, Object, Port
from tests.control import objects

HOST = "kai-ray.kai-scheduler.svc"


def _generation() -> certificates.Generation:
    return certificates.generate((HOST, "127.0.0.1"), datetime.now(UTC))


class _Broken:
    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        if request.object["metadata"].get("name") == "breaks":
            raise RuntimeError("a bug")
        return request.object


@pytest.fixture(scope="module")
def generation() -> certificates.Generation:
    return _generation()


@pytest.fixture(scope="module")
def server(generation: certificates.Generation) -> Iterator[WebhookServer]:
    store = MemoryStore()
    install_defaults(store)
    made = WebhookServer([*default_admission(), _Broken()], store, "127.0.0.1", 0)
    made.start()
    assert made.problem()  # nothing to show yet
    made.use(generation.certificate, generation.key)
    assert not made.problem()
    yield made
    made.stop()
    assert made.problem()


def _client(ca: str) -> urllib3.PoolManager:
    """As an API server: it knows the name of the Service, and trusts the bundle alone."""
    return urllib3.PoolManager(
        ca_cert_data=ca, assert_hostname=HOST, server_hostname=HOST, retries=False, timeout=10
    )


def _post(server: WebhookServer, ca: str, body: bytes, path: str = "/admit/queues") -> Any:
    with _client(ca) as client:
        return client.request("POST", f"https://127.0.0.1:{server.port}{path}", body=body)


def _review(obj: Object) -> bytes:
    asked = {"group": "scheduling.run.ai", "version": "v2", "resource": "queues"}
    request = {"uid": "u", "operation": "CREATE", "resource": asked, "object": obj}
    return json.dumps({"request": request}).encode()


def test_it_answers_by_the_name_of_its_service(
    server: WebhookServer, generation: certificates.Generation
) -> None:
    found = _post(server, generation.ca, _review(objects.queue("fine")))
    assert (found.status, found.json()["response"]["allowed"]) == (200, True)


def test_another_certificate_serves_the_next_connection(
    server: WebhookServer, generation: certificates.Generation
) -> None:
    following = _generation()
    with _client(generation.ca) as kept:
        url = f"https://127.0.0.1:{server.port}/admit"
        body = _review(objects.queue("fine"))
        assert kept.request("POST", url, body=body).status == 200
        server.use(following.certificate, following.key)
        assert kept.request("POST", url, body=body).status == 200  # the open connection goes on
        assert _post(server, following.ca, body).status == 200
        with pytest.raises(urllib3.exceptions.SSLError):
            _post(server, generation.ca, body)
    server.use(generation.certificate, generation.key)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/admit", b"nonsense", 400),
        ("/other", b"{}", 404),
        ("/admitted", b"{}", 404),
        ("/admit", b"x" * (LARGEST_BODY + 1), 413),
        ("/admit", _review(objects.queue("breaks")), 500),
    ],
)
def test_what_cannot_be_answered_is_said_so(
    server: WebhookServer,
    generation: certificates.Generation,
    path: str,
    body: bytes,
    status: int,
) -> None:
    assert _post(server, generation.ca, body, path).status == status
    assert _post(server, generation.ca, _review(objects.queue("fine"))).status == 200


def test_bodies_together_are_bounded(
    server: WebhookServer, generation: certificates.Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = _review(objects.queue("fine"))
    with monkeypatch.context() as patched:
        patched.setattr("kai_ray.admission.server.MOST_HELD", len(fine) - 1)
        assert _post(server, generation.ca, fine).status == 503
    for _ in range(3):  # what was turned away is not counted on
        assert _post(server, generation.ca, fine).status == 200
    assert server._held == 0


def test_nothing_but_posts(server: WebhookServer, generation: certificates.Generation) -> None:
    with _client(generation.ca) as client:
        assert client.request("GET", f"https://127.0.0.1:{server.port}/admit").status == 405


def test_who_speaks_no_tls_harms_nobody(
    server: WebhookServer, generation: certificates.Generation
) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"POST /admit HTTP/1.1\r\n\r\n")
    assert _post(server, generation.ca, _review(objects.queue("fine"))).status == 200


def test_old_tls_is_refused(server: WebhookServer, generation: certificates.Generation) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        pytest.raises(OSError),
    ):
        context.wrap_socket(plain)

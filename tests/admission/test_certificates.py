"""The webhook's certificate over years: made once, trusted before it is served, never missing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest
from cryptography import x509

from kai_ray.admission import certificates, webhooks
from kai_ray.admission.certificate_keeper import CertificateKeeper, KeeperConfig
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime

HOSTS = ("kai-ray.kai-scheduler.svc", "127.0.0.1")
CONFIG = KeeperConfig("default", hosts=HOSTS)
SERVICE = {"service": {"name": "kai-ray", "namespace": "default"}}


class _World:
    """A store with the webhook configurations, and replicas that keep the certificate."""

    def __init__(self, replicas: int = 1, config: KeeperConfig = CONFIG) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        install_defaults(self.store)
        for resource in (webhooks.MUTATING, webhooks.VALIDATING):
            self.store.create(kinds.CRD, _definition(resource))
        self.served: list[list[tuple[str, str]]] = [[] for _ in range(replicas)]
        self.keepers: list[CertificateKeeper] = []
        self.runtimes: list[Runtime] = []
        for list_ in self.served:
            keeper = CertificateKeeper(config, lambda *pair, own=list_: own.append(pair))
            runtime = Runtime(self.store, self.clock)
            runtime.add(keeper)
            self.keepers.append(keeper)
            self.runtimes.append(runtime)

    def configure(self) -> None:
        for made in webhooks.configurations(webhooks.WebhookConfig(SERVICE)):
            mutating = made["kind"] == webhooks.MUTATING.kind
            self.store.create(webhooks.MUTATING if mutating else webhooks.VALIDATING, made)

    def run(self, seconds: float, step: float = 30.0) -> None:
        """All replicas, and at every step: what is served is trusted."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            for runtime in self.runtimes:
                runtime.run_once()
            self.check()
            self.clock.advance_to(min(end, self.clock.now() + step))

    def check(self) -> None:
        for keeper, served in zip(self.keepers, self.served, strict=True):
            if served and keeper.published:
                assert _trusts(self.bundle(), served[-1][0])
                assert certificates.ends(served[-1][0]).timestamp() > self.clock.now()

    def bundle(self) -> str:
        found = self.store.get(webhooks.MUTATING, webhooks.NAME)["webhooks"]
        (bundle,) = {w["clientConfig"].get("caBundle", "") for w in found}
        return base64.b64decode(bundle).decode()


def _definition(resource: webhooks.Resource) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Cluster",
            "versions": [version],
        },
    }


def _trusts(bundle: str, certificate: str) -> bool:
    found = x509.load_pem_x509_certificate(certificate.encode())
    for one in certificates.split(bundle):
        try:
            found.verify_directly_issued_by(x509.load_pem_x509_certificate(one.encode()))
            return True
        except Exception:
            continue
    return False


@pytest.fixture
def world() -> Iterator[_World]:
    yield _World()


def test_it_is_made_once_and_trusted_as_soon_as_there_are_webhooks(world: _World) -> None:
    world.run(10, 1)
    assert len(world.served[0]) == 1 and not world.keepers[0].published
    world.configure()
    world.run(10, 1)
    assert world.keepers[0].published
    assert certificates.names(world.served[0][0][0]) == set(HOSTS)
    assert _trusts(world.bundle(), world.served[0][0][0])
    before = world.store.get(kinds.SECRET, CONFIG.secret, "default")
    world.run(3600)
    assert world.store.get(kinds.SECRET, CONFIG.secret, "default") == before
    assert len(world.served[0]) == 1


def test_replicas_serve_the_same_one() -> None:
    world = _World(3)
    world.configure()
    world.run(120, 1)
    assert {served[-1] for served in world.served} == {world.served[0][-1]}


def test_over_years_each_is_trusted_before_it_is_served() -> None:
    world = _World(2)
    world.configure()
    world.run(3 * 365 * 86400, 6 * 3600.0)  # `check` holds at every step
    counts = [len(served) for served in world.served]
    assert all(3 <= count <= 6 for count in counts)
    assert len(certificates.split(world.bundle())) <= 3


def test_a_restart_goes_on_in_the_middle_of_a_change() -> None:
    world = _World(config=KeeperConfig("default", hosts=HOSTS, valid=timedelta(days=30)))
    world.configure()
    world.run(10, 1)
    first = world.served[0][-1]
    world.clock.advance_to(world.clock.now() + 25 * 86400)
    world.run(5, 1)
    secret = world.store.get(kinds.SECRET, CONFIG.secret, "default")
    assert "next.crt" in secret["data"] and world.served[0][-1] == first
    world.run(300, 10)
    assert world.served[0][-1] != first
    secret = world.store.get(kinds.SECRET, CONFIG.secret, "default")
    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tls.crt": "bm8=", "tls.key": "bm8=", "ca.crt": "bm8="},
        {"tls.crt": "", "tls.key": "", "ca.crt": ""},
    ],
)
def test_a_secret_without_a_certificate_gets_one(world: _World, data: dict[str, str]) -> None:
    about = {"name": CONFIG.secret, "namespace": "default", "labels": {"of": "chart"}}
    world.store.create(kinds.SECRET, {"metadata": about, "data": data})
    world.configure()
    world.run(10, 1)
    assert world.keepers[0].published
    secret = world.store.get(kinds.SECRET, CONFIG.secret, "default")
    assert secret["metadata"]["labels"] == {"of": "chart"}


def test_one_that_is_provided_is_only_read() -> None:
    config = KeeperConfig("default", hosts=HOSTS, provided=True)
    world = _World(config=config)
    world.configure()
    world.run(10, 1)
    assert not world.served[0]
    made = certificates.generate(HOSTS, certificates.moment(world.clock.now()))
    data = {"ca.crt": made.ca, "tls.crt": made.certificate, "tls.key": made.key}
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}
    about = {"name": CONFIG.secret, "namespace": "default"}
    before = world.store.create(kinds.SECRET, {"metadata": about, "data": encoded})
    world.run(120, 1)
    assert world.served[0] == [(made.certificate, made.key)]
    assert world.bundle() == made.ca
    world.run(300 * 86400, 86400)
    assert world.store.get(kinds.SECRET, CONFIG.secret, "default") == before

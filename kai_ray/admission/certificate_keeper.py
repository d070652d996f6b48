"""Keeps the webhook's certificate in a Secret, and its CA in the webhook configurations.

Every replica runs one: who is first makes the certificate, the others find it (the Secret's
resource version decides). The Secret has `tls.crt`, `tls.key` and `ca.crt`, as cert-manager writes
them; while one generation follows another also `next.crt` and `next.key`. With `provided` the
Secret is somebody else's, and only read.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kai_ray.admission import certificates, webhooks
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, ApiError, NotFound, Object, Resource
from kai_ray.cluster.runtime import Runtime

log = logging.getLogger(__name__)

CONFIGURATIONS = (webhooks.MUTATING, webhooks.VALIDATING)
TRUSTED_SINCE = "kai.scheduler/next-trusted-since"
_KEY = "certificate"
_LOOK_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """Where the certificate is kept, and for which hosts it is."""

    namespace: str
    secret: str = "kai-ray-webhook"
    configuration: str = webhooks.NAME  # name of the webhook configurations
    hosts: tuple[str, ...] = ("127.0.0.1",)
    provided: bool = False  # the Secret is made by somebody else, such as cert-manager
    valid: timedelta = certificates.VALID
    settle_s: float = 60.0  # until every API server has read which CAs are trusted


class CertificateKeeper:
    """`on_change(certificate, key)` is called with PEM whenever another one is to be served."""

    name = "webhook-certificate"

    def __init__(self, config: KeeperConfig, on_change: Callable[[str, str], None]) -> None:
        self._config = config
        self._on_change = on_change
        self._served = ""
        self.published = False
        """Whether the configurations that are there trust what is served."""

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        runtime.enqueue(self.name, _KEY)

    def reconcile(self, key: str) -> float | None:
        secret = self._secret()
        data = _decoded(secret)
        self._serve(data)
        bundle = data.get("ca.crt", "")
        self.published = bool(self._served) and self._publish(bundle)
        if self._config.provided or not self.published:
            return _LOOK_AGAIN_S if self.published else 2.0
        return self._rotate(secret, data)

    # One generation after the other

    def _secret(self) -> Object:
        """The Secret, with a certificate in it."""
        config, port = self._config, self._runtime.port
        try:
            found = port.get(kinds.SECRET, config.secret, config.namespace)
        except NotFound:
            if config.provided:
                raise
            found = None
        if config.provided or (found is not None and self._usable(_decoded(found))):
            return found or {}
        made = certificates.generate(config.hosts, self._now(), config.valid)
        data = {"ca.crt": made.ca, "tls.crt": made.certificate, "tls.key": made.key}
        log.info("made a webhook certificate for %s", ", ".join(config.hosts))
        if found is None:
            return self._create(data)
        # What was trusted stays so: another replica may still serve it.
        old = certificates.unexpired(_decoded(found).get("ca.crt", ""), self._now())
        return self._write(found, data | {"ca.crt": made.ca + old}, since="")

    def _usable(self, data: Mapping[str, str]) -> bool:
        try:
            there = data["tls.crt"]
            return (
                bool(data["tls.key"] and data["ca.crt"])
                and certificates.ends(there) > self._now()
                and certificates.names(there) >= set(self._config.hosts)
            )
        except (KeyError, ValueError):
            return False

    def _rotate(self, secret: Object, data: Mapping[str, str]) -> float:
        """Makes the next generation in time, and serves it once it is trusted everywhere."""
        now = self._now()
        if "next.crt" in data:
            return self._succeed(secret, data)
        start, end = certificates.begins(data["tls.crt"]), certificates.ends(data["tls.crt"])
        renew = end - (end - start) / 3
        if now < renew:
            return min(_LOOK_AGAIN_S, max(1.0, (renew - now).total_seconds()))
        made = certificates.generate(self._config.hosts, now, self._config.valid)
        bundle = made.ca + certificates.unexpired(data["ca.crt"], now)
        following = {"ca.crt": bundle, "next.crt": made.certificate, "next.key": made.key}
        log.info("the webhook certificate ends at %s: the next one is made", end)
        self._write(secret, {**data, **following}, since="")
        return 0.0

    def _succeed(self, secret: Object, data: Mapping[str, str]) -> float:
        """The bundle is published: after a while the next certificate takes over."""
        notes = secret["metadata"].get("annotations") or {}
        now = self._runtime.clock.now()
        if not notes.get(TRUSTED_SINCE):
            self._write(secret, data, since=repr(now))
            return self._config.settle_s
        left = float(notes[TRUSTED_SINCE]) + self._config.settle_s - now
        if left > 0:
            return left
        kept = {k: v for k, v in data.items() if not k.startswith("next.")}
        kept |= {"tls.crt": data["next.crt"], "tls.key": data["next.key"]}
        self._serve(_decoded(self._write(secret, kept, since="")))
        return 0.0

    # Doors to the world

    def _serve(self, data: Mapping[str, str]) -> None:
        pair = data.get("tls.crt", ""), data.get("tls.key", "")
        if all(pair) and pair[0] != self._served:
            self._on_change(*pair)
            self._served = pair[0]

    def _publish(self, bundle: str) -> bool:
        """Whether every webhook of ours trusts the bundle."""
        encoded = base64.b64encode(bundle.encode()).decode()
        found = [self._publish_in(resource, encoded) for resource in CONFIGURATIONS]
        return any(found)

    def _publish_in(self, resource: Resource, encoded: str) -> bool:
        port, name = self._runtime.port, self._config.configuration
        try:
            there = port.get(resource, name)
        except NotFound:
            return False
        webhooks: Sequence[Object] = there.get("webhooks") or ()
        stale = [i for i, w in enumerate(webhooks) if w["clientConfig"].get("caBundle") != encoded]
        if stale:
            # The tests keep a bundle from landing on another webhook, if the list has changed.
            patch = [
                {"op": "test", "path": f"/webhooks/{i}/name", "value": webhooks[i]["name"]}
                for i in stale
            ] + [
                {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": encoded}
                for i in stale
            ]
            port.patch(resource, name, patch, patch_type="json")
        return True

    def _create(self, data: Mapping[str, str]) -> Object:
        config = self._config
        about = {"name": config.secret, "namespace": config.namespace}
        body = {"metadata": about, "type": "Opaque", "data": _encoded(data)}
        try:
            return self._runtime.port.create(kinds.SECRET, body)
        except AlreadyExists:
            raise ApiError(f"Secret {config.secret} was made by another replica") from None

    def _write(self, secret: Object, data: Mapping[str, str], *, since: str) -> Object:
        """Replaces the contents, if nobody else has meanwhile (Conflict)."""
        about = secret["metadata"]
        notes = {k: v for k, v in (about.get("annotations") or {}).items() if k != TRUSTED_SINCE}
        if since:
            notes[TRUSTED_SINCE] = since
        body = {
            **secret,
            "metadata": {**about, "annotations": notes},
            "data": _encoded(data),
        }
        return self._runtime.port.update(kinds.SECRET, body)

    def _now(self) -> datetime:
        return certificates.moment(self._runtime.clock.now())


def _decoded(secret: Object) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value).decode()
        except (binascii.Error, ValueError):
            continue
    return found


def _encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}

"""Certificates that real programs trust each other by, made anew for every run."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID

LIFE = timedelta(days=2)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM. The key is PKCS#1, which all Go programs read."""

    certificate: bytes
    key: bytes


@dataclass
class Authority:
    """A certificate authority. `hosts` are names that some programs look for in its certificate."""

    name: str = "tests-ca"
    hosts: Sequence[str] = ()
    life: timedelta = LIFE
    pair: Pair = field(init=False)

    def __post_init__(self) -> None:
        self._key = _new_key()
        self._subject = _name(self.name)
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (_key_usage(signs=True), True),
        ]
        if self.hosts:
            extensions.append((x509.SubjectAlternativeName(_names(self.hosts)), False))
        self.pair = self._sign(self._subject, self._key, extensions, self.life)

    def server(self, hosts: Sequence[str], life: timedelta = LIFE) -> Pair:
        """For a server that is reached under these host names and addresses."""
        return self._issue(
            _name(hosts[0]),
            [
                (x509.SubjectAlternativeName(_names(hosts)), False),
                (x509.ExtendedKeyUsage([Usage.SERVER_AUTH]), False),
            ],
            life,
        )

    def client(self, user: str, groups: Sequence[str] = (), life: timedelta = LIFE) -> Pair:
        """For a client that the API server takes for `user`."""
        return self._issue(
            _name(user, groups), [(x509.ExtendedKeyUsage([Usage.CLIENT_AUTH]), False)], life
        )

    def _issue(
        self,
        subject: x509.Name,
        extensions: list[tuple[x509.ExtensionType, bool]],
        life: timedelta,
    ) -> Pair:
        usage: tuple[x509.ExtensionType, bool] = (_key_usage(signs=False), True)
        return self._sign(subject, _new_key(), [usage, *extensions], life)

    def _sign(
        self,
        subject: x509.Name,
        key: rsa.RSAPrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        life: timedelta,
    ) -> Pair:
        now = datetime.now(UTC)
        draft = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + life)
        )
        for extension, critical in extensions:
            draft = draft.add_extension(extension, critical)
        signed = draft.sign(self._key, hashes.SHA256())
        return Pair(signed.public_bytes(serialization.Encoding.PEM), private_pem(key))


def key_pair() -> tuple[bytes, bytes]:
    """A private and a public key, in PEM: what service account tokens are signed with."""
    key = _new_key()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_pem(key), public


def private_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _name(user: str, groups: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_general_name(host) for host in hosts]


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )

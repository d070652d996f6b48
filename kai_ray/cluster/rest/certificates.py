"""A certificate authority of our own, and the loopback server's certificate.

TLS on loopback is not for secrecy: kubectl sends no credentials over plain HTTP.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

VALID_DAYS = 3650
RENEW_DAYS = 30


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Files of a server's certificate and key, and the CA (PEM) that clients are to trust."""

    certificate: Path
    key: Path
    ca_pem: bytes


def ensure(folder: Path, hosts: tuple[str, ...]) -> ServerFiles:
    """The files in `folder`, made anew if they are missing, end soon or name other hosts."""
    files = ServerFiles(folder / "server.crt", folder / "server.key", b"")
    ca = folder / "ca.crt"
    there = all(path.exists() for path in (files.certificate, files.key, ca))
    if not there or not _serves(files.certificate, hosts):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(files, ca, hosts)
    return ServerFiles(files.certificate, files.key, ca.read_bytes())


def _serves(certificate: Path, hosts: tuple[str, ...]) -> bool:
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    known = {str(name.value) for name in names}
    fresh = found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=RENEW_DAYS)
    return fresh and set(hosts) <= known


def _make(files: ServerFiles, ca_file: Path, hosts: tuple[str, ...]) -> None:
    # Imported here: only a server that starts for the first time needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    start = datetime.now(UTC) - timedelta(hours=1)
    usage_off = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )

    def builder(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(named("kai-ray-ca"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=VALID_DAYS))
        )

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        builder(named("kai-ray-ca"), ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage_off),
            critical=True,
        )
        .add_extension(ca_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        builder(named("kai-ray"), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **usage_off),
            critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_san(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    # The CA's key is not kept: nothing else is ever to be signed with it.
    pem = serialization.Encoding.PEM
    _write_private(
        files.key,
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    files.certificate.write_bytes(certificate.public_bytes(pem))
    ca_file.write_bytes(ca.public_bytes(pem))


def _san(host: str):
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)

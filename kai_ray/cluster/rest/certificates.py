"""A certificate authority of our own, and the loopback server's certificate.

TLS on loopback is not for secrecy: kubectl sends no credentials over plain HTTP.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

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
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id)
    names = x509.SubjectAlternativeName([_san(host) for host in hosts])
    ca = _draft("kai-ray-ca", ca_key.public_key(), is_ca=True).add_extension(ca_id, critical=False)
    certificate = (
        _draft("kai-ray", key.public_key(), is_ca=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(issuer_id, critical=False)
    )
    # The CA's key is not kept: nothing else is ever to be signed with it.
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write_private(files.key, key.private_bytes(pem, *plain))
    files.certificate.write_bytes(certificate.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    ca_file.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(pem))


def _draft(name: str, key: ec.EllipticCurvePublicKey, *, is_ca: bool) -> x509.CertificateBuilder:
    """A certificate of our CA for that key, not yet signed."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )
    start = datetime.now(UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named("kai-ray-ca"))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(is_ca, 0 if is_ca else None), critical=True)
        .add_extension(usage, critical=True)
    )


def _san(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)

"""A certificate authority that signs one serving certificate, and whose key is then forgotten.

No key that could sign another is ever stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: The clocks of clients may be behind ours.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Generation:
    """PEM of the CA, and of the serving certificate with its key."""

    ca: str
    certificate: str
    key: str


def generate(
    hosts: Sequence[str], now: datetime, valid: timedelta, authority: str = "kai-ray-ca"
) -> Generation:
    """A CA of that name, and its certificate for these DNS names and addresses."""
    # Imported here: only a server that starts for the first time needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id)
    names = x509.SubjectAlternativeName([_san(host) for host in hosts])
    span = (now - _BACKDATED, now + valid)
    ca = _draft(authority, authority, ca_key.public_key(), span, is_ca=True)
    served = (
        _draft(hosts[0][:64], authority, key.public_key(), span, is_ca=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(issuer_id, critical=False)
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = ca.add_extension(ca_id, critical=False).sign(ca_key, hashes.SHA256())
    return Generation(
        signed.public_bytes(pem).decode(),
        served.sign(ca_key, hashes.SHA256()).public_bytes(pem).decode(),
        key.private_bytes(pem, *plain).decode(),
    )


def ends(certificate: str) -> datetime:
    """When it is no longer valid. Raises ValueError if it is no certificate."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def begins(certificate: str) -> datetime:
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_before_utc


def names(certificate: str) -> set[str]:
    """The hosts that it is for. Raises ValueError if it is no certificate."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        listed = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in listed.value}


def _draft(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePublicKey,
    span: tuple[datetime, datetime],
    *,
    is_ca: bool,
) -> x509.CertificateBuilder:
    """A certificate for that key, not yet signed."""
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
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.BasicConstraints(is_ca, 0 if is_ca else None), critical=True)
        .add_extension(usage, critical=True)
    )


def _san(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""A certificate authority of our own, and the loopback server's certificate.

TLS on loopback is not for secrecy: kubectl sends no credentials over plain HTTP.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kai_ray.cluster import authority

VALID = timedelta(days=3650)
RENEW = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Files of a server's certificate and key, and the CA (PEM) that clients are to trust."""

    certificate: Path
    key: Path
    ca_pem: bytes


def ensure(folder: Path, hosts: tuple[str, ...]) -> ServerFiles:
    """The files in `folder`, made anew if they are missing, end soon or name other hosts."""
    certificate, key, ca = (folder / name for name in ("server.crt", "server.key", "ca.crt"))
    there = all(path.exists() for path in (certificate, key, ca))
    if not there or not _serves(certificate, hosts):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = authority.generate(hosts, datetime.now(UTC), VALID)
        _write_private(key, made.key)
        certificate.write_text(made.certificate)
        ca.write_text(made.ca)
    return ServerFiles(certificate, key, ca.read_bytes())


def _serves(certificate: Path, hosts: tuple[str, ...]) -> bool:
    try:
        text = certificate.read_text()
        fresh = authority.ends(text) > datetime.now(UTC) + RENEW
        return fresh and set(hosts) <= authority.names(text)
    except ValueError:
        return False


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)

"""Which addresses messages may go to: users may name some, and we stand inside the network.

An address that nobody vouches for has to be https, and its host has to be a public one: not this
machine, not the network around it, not a cloud's metadata service. The IP address that was judged
is the one that is spoken to, so a name that changes its mind in between gains nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_HOST = re.compile(
    r"(\*\.)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?"
)
_PRINTABLE = re.compile(r"[!-~]{1,2048}")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve = Callable[[str, int], Iterable[str]]


class AddressError(ValueError):
    """An address that is not spoken to; the text says why and never holds its path."""


@dataclass(frozen=True, slots=True)
class Address:
    scheme: str
    host: str
    port: int
    path: str  # with the query; may be a secret
    trusted: bool = False

    @property
    def label(self) -> str:
        """What may be shown to anybody."""
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.host}{port}"


def trusted_host(text: Any) -> str:
    """One entry of the operator's list. Raises AddressError."""
    if not isinstance(text, str) or not _HOST.fullmatch(text.strip().lower()):
        raise AddressError(f"{text!r} is not a host: write name, name:port or *.domain")
    return text.strip().lower()


def judged(url: str, hosts: Iterable[str] = (), *, vouched: bool = False) -> Address:
    """The parts of an address that may be used as far as its text tells. Raises AddressError.

    vouched: the operator has written it, so its host is trusted.
    """
    if not _PRINTABLE.fullmatch(url):
        raise AddressError("the address has spaces, other characters than ASCII or is too long")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise AddressError(f"the address cannot be read ({error})") from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise AddressError("the address is not one of https: write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise AddressError(f"{host}: the address names a user: leave that out")
    port = _DEFAULT_PORTS[parts.scheme] if port is None else port
    trusted = vouched or _is_trusted(host, port, hosts)
    if parts.scheme != "https" and not trusted:
        raise AddressError(f"{host}: only https is allowed, or hosts that the operator lists")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme, host, port, path, trusted)


def label(url: str) -> str:
    """Of an address what may be shown to anybody: its path may be a password."""
    try:
        return judged(url, vouched=True).label
    except AddressError:
        return "an address"


def places(address: Address, resolve: Resolve | None = None) -> list[str]:
    """IP addresses to speak to. Raises AddressError where none is allowed, OSError without any."""
    found = list((resolve or _resolve)(address.host, address.port))
    allowed = [ip for ip in found if address.trusted or is_public(ip)]
    if not allowed:
        raise AddressError(
            f"{address.host}: is inside the network: the operator has to list the host first"
        )
    return allowed


def is_public(text: str) -> bool:
    """An address of the internet at large, also where one of IPv4 is wrapped in one of IPv6."""
    ip = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            ip = inner
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_trusted(host: str, port: int, hosts: Iterable[str]) -> bool:
    name = f"[{host}]" if ":" in host else host
    for entry in hosts:
        if entry in (name, f"{name}:{port}"):
            return True
        if entry.startswith("*.") and (
            name.endswith(entry[1:]) or f"{name}:{port}".endswith(entry[1:])
        ):
            return True
    return False

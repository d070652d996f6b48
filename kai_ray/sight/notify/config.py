"""What the operator says about notifications: channels by name, and hosts that are trusted.

A channel's address is often its own password. So it stands in a file that the operator keeps, and
users name the channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kai_ray.api.notify import CHANNEL, NOBODY
from kai_ray.sight.notify.address import AddressError, trusted_host

_LARGEST = 1 << 20


class NotifyConfigError(ValueError):
    """A file that cannot be used; the text names the field and the mend."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One of `url` and `url_file` is set; the file is read at each message, so it may change."""

    url: str = ""
    url_file: str = ""


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """`hosts` ("name", "name:port", "*.domain") may be spoken to without TLS and inside the
    network; all others only by https, and only where their address is public."""

    channels: Mapping[str, Channel] = field(default_factory=dict[str, Channel])
    hosts: tuple[str, ...] = ()
    addresses: bool = True
    """False: annotations may name channels only, no addresses."""
    console: str = ""
    """Address of the console, for links to jobs; "" = no links."""
    ca_file: str = ""
    """Certificates beside the system's, in PEM."""


def load(path: str | Path) -> NotifyConfig:
    """Reads YAML or JSON. Raises NotifyConfigError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise NotifyConfigError(f"{path}: {error.strerror}") from error
    if len(text) > _LARGEST:
        raise NotifyConfigError(f"{path}: is larger than {_LARGEST} bytes")
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotifyConfigError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    try:
        return parse(raw)
    except NotifyConfigError as error:
        raise NotifyConfigError(f"{path}: {error}") from error


def parse(raw: Any) -> NotifyConfig:
    """Raises NotifyConfigError."""
    known = ("channels", "hosts", "addresses", "console", "caFile")
    top = _mapping({} if raw is None else raw, "the file", known)
    channels: dict[str, Channel] = {}
    for name, value in _mapping(top.get("channels") or {}, "channels").items():
        if not isinstance(name, str) or not CHANNEL.fullmatch(name) or name == NOBODY:
            raise NotifyConfigError(
                f"channels: {name!r} is not a name: write lower-case letters, digits and -"
            )
        channels[name] = _channel(value, f"channels.{name}")
    hosts = top.get("hosts") or []
    if not isinstance(hosts, list):
        raise NotifyConfigError("hosts: is not a list: write [chat.example.com, ...]")
    addresses = top.get("addresses", True)
    if not isinstance(addresses, bool):
        raise NotifyConfigError(f"addresses: {addresses!r} is neither true nor false")
    try:
        trusted = tuple(trusted_host(host) for host in hosts)
    except AddressError as error:
        raise NotifyConfigError(f"hosts: {error}") from error
    console = _text(top.get("console"), "console").rstrip("/")
    if console and not console.startswith(("http://", "https://")):
        raise NotifyConfigError(f"console: {console!r} is not an address: write https://...")
    return NotifyConfig(channels, trusted, addresses, console, _text(top.get("caFile"), "caFile"))


def _channel(value: Any, at: str) -> Channel:
    fields = _mapping({"url": value} if isinstance(value, str) else value, at, ("url", "urlFile"))
    channel = Channel(
        _text(fields.get("url"), f"{at}.url"), _text(fields.get("urlFile"), f"{at}.urlFile")
    )
    if bool(channel.url) == bool(channel.url_file):
        raise NotifyConfigError(f"{at}: has neither url nor urlFile, or both: write one of them")
    return channel


def _mapping(value: Any, at: str, known: tuple[str, ...] = ()) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise NotifyConfigError(f"{at}: is not a map of fields")
    strange = [str(key) for key in value if known and key not in known]
    if strange:
        raise NotifyConfigError(
            f"{at}: unknown field {strange[0]!r}: write one of {', '.join(known)}"
        )
    return value


def _text(value: Any, at: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotifyConfigError(f"{at}: {value!r} is not text")
    return value.strip()

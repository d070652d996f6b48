"""Pools of connections to one API server: TLS, client certificates, proxies."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import urllib3
from urllib3.exceptions import InsecureRequestWarning

from .kubeconfig import Connection


def make_pool(
    connection: Connection, certificate: tuple[bytes, bytes] | None, size: int
) -> urllib3.PoolManager:
    """A pool that keeps up to `size` connections; `certificate` is (certificate, key) in PEM."""
    options: dict[str, Any] = {"maxsize": size, "block": False, "retries": False}
    if connection.server.startswith("https://"):
        options["ssl_context"] = _ssl_context(connection, certificate)
        if connection.tls_server_name:
            options["server_hostname"] = connection.tls_server_name
            options["assert_hostname"] = connection.tls_server_name
    proxy = connection.proxy_url or proxy_of(connection.server)
    if proxy:
        return urllib3.ProxyManager(proxy, **options)
    return urllib3.PoolManager(**options)


def proxy_of(server: str) -> str:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a server, "" for none.

    As in kubectl, this machine itself is never reached by way of a proxy.
    """
    url = urlsplit(server)
    host = url.hostname or ""
    if host == "localhost" or _is_loopback(host):
        return ""
    if proxy_bypass(url.netloc):
        return ""
    proxy = getproxies_environment().get(url.scheme, "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _ssl_context(connection: Connection, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cadata=connection.ca_pem.decode("ascii") if connection.ca_pem else None
    )
    if connection.insecure:
        # The kubeconfig says so: a warning at every request would tell the user nothing new.
        urllib3.disable_warnings(InsecureRequestWarning)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        # The standard library reads client certificates from files only.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "client.pem")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(certificate[0] + b"\n" + certificate[1])
            context.load_cert_chain(path)
    return context

"""Credentials of auth-provider users, by way of the `kubernetes` package.

That package is imported only here and only for such users: it costs half a second.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from .kubeconfig import KubeconfigError


class PluginCredentials:
    """Headers and client certificate that a plugin gives; headers are refreshed as they expire."""

    def __init__(self, kubeconfig: dict[str, Any]) -> None:
        from kubernetes.client import Configuration
        from kubernetes.config.config_exception import ConfigException
        from kubernetes.config.kube_config import KubeConfigLoader

        self._lock = threading.Lock()
        self._configuration = Configuration()
        user = kubeconfig["users"][0]["user"]
        what = user["auth-provider"].get("name")
        try:
            loader = KubeConfigLoader(kubeconfig, config_base_path="")
            loader.load_and_set(self._configuration)
        except (ConfigException, KeyError, OSError, ValueError) as error:
            raise KubeconfigError(f"the credential plugin {what!r} failed: {error}") from error
        self.certificate = _certificate(self._configuration)
        if not self.headers() and not self.certificate:
            raise KubeconfigError(
                f"the credential plugin {what!r} gave no token and no certificate: "
                "run it by hand to see why"
            )

    def headers(self) -> dict[str, str]:
        with self._lock:
            settings: dict[str, Any] = dict(self._configuration.auth_settings())
        found = {s["key"]: s["value"] for s in settings.values() if s.get("in") == "header"}
        return {key: value for key, value in found.items() if value}


def _certificate(configuration: Any) -> tuple[bytes, bytes] | None:
    if not configuration.cert_file or not configuration.key_file:
        return None
    return Path(configuration.cert_file).read_bytes(), Path(configuration.key_file).read_bytes()

"""Who a control plane trusts: its certificates, tokens and kubeconfigs, as files in a folder."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.real.pki import Authority, Pair, key_pair


class Trust:
    """The files that programs are started with; one administrator has a token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = folder / "tokens.csv"
        self.authority = Authority()
        self._token = secrets.token_hex(16)

    def file(self, name: str) -> Path:
        """ca.crt, server.crt, server.key, accounts.key or accounts.pub."""
        return self.folder / "pki" / name

    def write(self, hosts: Sequence[str]) -> None:
        """All files for an API server that is reached under `hosts`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        (self.folder / "pki").mkdir()
        server = self.authority.server(hosts)
        private, public = key_pair()
        for name, data in {
            "ca.crt": self.authority.pair.certificate,
            "server.crt": server.certificate,
            "server.key": server.key,
            "accounts.key": private,
            "accounts.pub": public,
        }.items():
            self.file(name).write_bytes(data)
        self.tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')

    def write_admin(self, path: Path, url: str) -> None:
        self._write_config(path, url, {"token": self._token})

    def write_user(self, path: Path, url: str, pair: Pair) -> None:
        """A kubeconfig of the user whom a client certificate names."""
        data = {
            "client-certificate-data": _text(pair.certificate),
            "client-key-data": _text(pair.key),
        }
        self._write_config(path, url, data)

    def _write_config(self, path: Path, url: str, user: Mapping[str, str]) -> None:
        ca = _text(self.authority.pair.certificate)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "tests", "cluster": {"server": url, "certificate-authority-data": ca}}
            ],
            "users": [{"name": "user", "user": dict(user)}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
            "current-context": "tests",
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

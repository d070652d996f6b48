"""Kubeconfig files: which API server, trusted how, and as whom.

Follows kubectl's rules: an explicit file stands alone; else every file of `$KUBECONFIG`, merged so
that the first to say something wins; else `~/.kube/config`; else, inside a pod, the service
account. Paths in a file are relative to that file. Plain cases need nothing but this module; users
that name an auth-provider are left to the `kubernetes` package (`kube_plugin.py`).
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_FILE = "~/.kube/config"
_PATH_FIELDS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_BODY = {"clusters": "cluster", "users": "user", "contexts": "context"}

Config = dict[str, Any]


class KubeconfigError(Exception):
    """What is wrong with which field of which file, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """All that is needed to talk to one API server. PEM is bytes; "" and None mean absent."""

    server: str
    namespace: str = "default"
    context: str = ""
    ca_pem: bytes | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    client_cert_pem: bytes | None = None
    client_key_pem: bytes | None = None
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    impersonate: tuple[tuple[str, str], ...] = ()  # header, value
    plugin: Config | None = None  # a kubeconfig of one context whose user has an auth-provider
    exec_user: Config | None = None  # the `exec` of a user whose credentials a program gives
    reload: Callable[[], Connection] | None = None  # reads again what this was made from

    def __repr__(self) -> str:
        # Credentials must not reach logs by way of a traceback or a debug print.
        return f"Connection(server={self.server!r}, context={self.context!r})"


def load(path: str | None = None, context: str | None = None) -> Connection:
    """The connection that kubectl would use; its `reload` is this call. Raises KubeconfigError."""
    return replace(_load(path, context), reload=partial(load, path, context))


def _load(path: str | None, context: str | None) -> Connection:
    config = read(path)
    if not config["contexts"] and not config["clusters"] and path is None:
        inside = in_cluster()
        if inside is not None:
            return inside
        raise KubeconfigError(
            "no cluster is configured: start one with `kai up`, or name a file with --kubeconfig, "
            "$KUBECONFIG or ~/.kube/config"
        )
    return resolve(config, context)


def read(path: str | None = None) -> Config:
    """The merged configuration: `{clusters, users, contexts}` by name, and `current-context`."""
    merged: Config = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    for file in _files(path):
        if path is None and not file.exists():
            continue
        _merge(merged, _read_file(file), file)
    return merged


def resolve(config: Config, context: str | None = None) -> Connection:
    """The connection of one context of a merged configuration (default: the current one)."""
    name = context or config["current-context"]
    if not name:
        raise KubeconfigError(
            "the kubeconfig has no current-context: choose one with --context, of "
            + _known(config["contexts"])
        )
    chosen = _entry(config, "contexts", name, "--context")
    cluster_name = chosen.get("cluster") or ""
    cluster = _entry(config, "clusters", cluster_name, f"contexts[{name}].context.cluster")
    user_name = chosen.get("user") or ""
    user = _entry(config, "users", user_name, f"contexts[{name}].context.user") if user_name else {}
    server = str(cluster.get("server") or "").rstrip("/")
    where = f"clusters[{cluster_name}].cluster"
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f"{where}.server is {server!r}: give a URL as https://host:port")
    return Connection(
        server=server,
        namespace=chosen.get("namespace") or "default",
        context=name,
        ca_pem=_pem(cluster, "certificate-authority", where),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name") or "",
        proxy_url=cluster.get("proxy-url") or "",
        **_credentials(user, f"users[{user_name}].user"),
        plugin=_plugin(config, name, user),
        exec_user=user["exec"] if user.get("exec") and not user.get("token") else None,
    )


def user_of(path: str | None = None, context: str | None = None) -> str:
    """The name that a kubeconfig gives the user of a context; "" where there is none."""
    config = read(path)
    chosen = config["contexts"].get(context or config["current-context"]) or {}
    return str(chosen.get("user") or "")


def in_cluster(folder: Path = SERVICE_ACCOUNT_DIR) -> Connection | None:
    """The service account of the pod we run in, or None outside a cluster."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = folder / "token"
    if not host or not token.exists():
        return None
    namespace = folder / "namespace"
    ca = folder / "ca.crt"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        context="in-cluster",
        ca_pem=ca.read_bytes() if ca.exists() else None,
        token_file=str(token),
    )


def single(
    name: str, server: str, *, token: str = "", ca_pem: bytes | None = None, namespace: str = ""
) -> Config:
    """A kubeconfig, as its file holds it, of one cluster, user and context of that name."""
    cluster: Config = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    context: Config = {"cluster": name, "user": name}
    if namespace:
        context["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def write(config: Config, path: str | Path) -> Path:
    """Adds the entries of `config` to a file (new ones win), makes its context current.

    The file is replaced in one step and readable by its owner only. Other entries are kept.
    """
    file = Path(path).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    found = _read_file(file) if file.exists() else {}
    result: Config = {"apiVersion": "v1", "kind": "Config"} | found
    for section in _BODY:
        new = {entry["name"]: entry for entry in config.get(section) or []}
        kept = [entry for entry in found.get(section) or [] if entry["name"] not in new]
        result[section] = kept + list(new.values())
    result["current-context"] = config.get("current-context") or result.get("current-context", "")
    _replace(file, result)
    return file


def forget(name: str, path: str | Path) -> None:
    """Takes the cluster, user and context of that name out of a file; no error if absent."""
    file = Path(path).expanduser()
    if not file.exists():
        return
    found = _read_file(file)
    for section in _BODY:
        found[section] = [e for e in found.get(section) or [] if e["name"] != name]
    if found.get("current-context") == name:
        found["current-context"] = ""
    _replace(file, found)


def _replace(file: Path, content: Config) -> None:
    handle, scratch = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(handle, "w") as out:  # mkstemp makes it 0600
        yaml.safe_dump(content, out, sort_keys=False)
    os.replace(scratch, file)


def _files(path: str | None) -> list[Path]:
    if path:
        return [Path(path).expanduser()]
    listed = [p for p in os.environ.get("KUBECONFIG", "").split(os.pathsep) if p]
    return [Path(p).expanduser() for p in listed or [DEFAULT_FILE]]


def _read_file(file: Path) -> Config:
    try:
        text = file.read_text()
    except OSError as error:
        raise KubeconfigError(f"cannot read kubeconfig {file}: {error.strerror}") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {file} is not YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise KubeconfigError(f"kubeconfig {file} must be a mapping with clusters, users, contexts")
    for section, body in _BODY.items():
        for entry in content.get(section) or []:
            if not isinstance(entry, dict) or not entry.get("name"):
                raise KubeconfigError(f"kubeconfig {file}: every entry of {section} needs a name")
            if not isinstance(entry.get(body) or {}, dict):
                raise KubeconfigError(
                    f"{file}: {section}[{entry['name']}].{body} must be a mapping"
                )
    return content


def _merge(into: Config, content: Config, file: Path) -> None:
    into["current-context"] = into["current-context"] or content.get("current-context") or ""
    for section, body in _BODY.items():
        for entry in content.get(section) or []:
            values = dict(entry.get(body) or {})
            for field in _PATH_FIELDS.get(section, ()):
                if values.get(field):
                    values[field] = str(file.parent / Path(str(values[field])).expanduser())
            if "/" in str((values.get("exec") or {}).get("command") or ""):
                command = str(file.parent / str(values["exec"]["command"]))
                values["exec"] = {**values["exec"], "command": command}
            into[section].setdefault(str(entry["name"]), values)


def _entry(config: Config, section: str, name: str, field: str) -> Config:
    found = config[section].get(name)
    if found is None:
        raise KubeconfigError(
            f"{field} names {name!r}, but the kubeconfig's {section} are {_known(config[section])}"
        )
    return found


def _known(entries: Config) -> str:
    return ", ".join(sorted(entries)) or "none"


def _credentials(user: Config, where: str) -> dict[str, Any]:
    impersonate: list[tuple[str, str]] = []
    if user.get("as"):
        impersonate.append(("Impersonate-User", str(user["as"])))
    if user.get("as-uid"):
        impersonate.append(("Impersonate-Uid", str(user["as-uid"])))
    impersonate += [("Impersonate-Group", str(g)) for g in user.get("as-groups") or []]
    return {
        "client_cert_pem": _pem(user, "client-certificate", where),
        "client_key_pem": _pem(user, "client-key", where),
        "token": str(user.get("token") or ""),
        "token_file": user.get("tokenFile") or "",
        "username": str(user.get("username") or ""),
        "password": str(user.get("password") or ""),
        "impersonate": tuple(impersonate),
    }


def _plugin(config: Config, context: str, user: Config) -> Config | None:
    """The single-context file that the `kubernetes` package is given, if the user needs it."""
    if not user.get("auth-provider") or user.get("exec") or user.get("token"):
        return None
    chosen = config["contexts"][context]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": config["clusters"][chosen["cluster"]]}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        "current-context": context,
    }


def _pem(entry: Config, field: str, where: str) -> bytes | None:
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{where}.{field}-data is not base64: {error}") from error
    if path := entry.get(field):
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise KubeconfigError(
                f"{where}.{field}: cannot read {path}: {error.strerror}"
            ) from error
    return None

"""Kubeconfig files, read as kubectl reads them."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.cluster import kubeconfig
from kai_ray.cluster.kubeconfig import KubeconfigError


def cluster(name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": f"https://{name}:6443"} | values}


def config(**sections: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Config"} | sections


def whole(user: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    return config(
        clusters=[cluster("c", **values)],
        users=[{"name": "u", "user": user or {}}],
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        **{"current-context": "x"},
    )


def save(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_all_of_a_context_is_found(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("THE CA")
    user = {
        "token": "t",
        "client-certificate-data": b64("CERT"),
        "client-key-data": b64("KEY"),
        "username": "ann",
        "password": "pw",
        "as": "bob",
        "as-groups": ["g", "h"],
    }
    values = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "other",
        "proxy-url": "http://proxy:3128",
    }
    found = kubeconfig.load(save(tmp_path / "config", whole(user, **values)))
    assert (found.server, found.namespace, found.context) == ("https://c:6443", "team", "x")
    assert found.ca_pem == b"THE CA", "a path is relative to its file"
    assert (found.client_cert_pem, found.client_key_pem) == (b"CERT", b"KEY")
    assert (found.token, found.username, found.password) == ("t", "ann", "pw")
    assert (found.tls_server_name, found.proxy_url) == ("other", "http://proxy:3128")
    assert found.impersonate == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
    )
    assert found.plugin is None


def test_credentials_do_not_show_in_a_print(tmp_path: Path) -> None:
    found = kubeconfig.load(save(tmp_path / "config", whole({"token": "hush-hush"})))
    assert "hush" not in repr(found) and "hush" not in str(found)


def test_of_several_files_the_first_to_speak_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = config(clusters=[cluster("c", **{"insecure-skip-tls-verify": True})])
    second = whole({"token": "t"}) | {"current-context": "x"}
    third = config(**{"current-context": "never"})
    paths = [save(tmp_path / str(i), c) for i, c in enumerate((first, second, third))]
    paths.insert(1, str(tmp_path / "missing"))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    found = kubeconfig.load()
    assert (found.context, found.insecure, found.token) == ("x", True, "t")
    with pytest.raises(KubeconfigError, match="cannot read"):
        kubeconfig.load(str(tmp_path / "missing"))


def test_the_home_file_is_the_last_resort(tmp_path: Path) -> None:
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    save(home / "config", whole({"token": "from-home"}))
    assert kubeconfig.load().token == "from-home"


def test_inside_a_pod_its_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "mine\n")):
        (tmp_path / name).write_text(text)
    found = kubeconfig.in_cluster(tmp_path)
    assert found is not None
    assert (found.server, found.namespace) == ("https://[fd00::1]:6443", "mine")
    assert (found.token_file, found.ca_pem) == (str(tmp_path / "token"), b"CA")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT_DIR", tmp_path)
    assert kubeconfig.in_cluster(tmp_path / "elsewhere") is None


def test_without_any_cluster_the_way_out_is_named() -> None:
    with pytest.raises(KubeconfigError, match="kai up"):
        kubeconfig.load()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "is not YAML"),
        ("- a", "must be a mapping"),
        (config(clusters=[{"cluster": {}}]), "every entry of clusters needs a name"),
        (config(users=[{"name": "u", "user": "x"}]), r"users\[u\].user must be a mapping"),
        (whole() | {"current-context": "y"}, "names 'y', but the kubeconfig's contexts are x"),
        (whole() | {"current-context": ""}, "no current-context: choose one with --context, of x"),
        (whole() | {"clusters": []}, r"contexts\[x\].context.cluster names 'c'"),
        (whole() | {"users": []}, r"contexts\[x\].context.user names 'u'"),
        (whole(None, server="c:6443"), r"clusters\[c\].cluster.server is 'c:6443'"),
        (
            whole(None, **{"certificate-authority-data": "%%%"}),
            r"clusters\[c\].cluster.certificate-authority-data is not base64",
        ),
        (whole({"client-key": "/nowhere"}), r"users\[u\].user.client-key: cannot read /nowhere"),
    ],
)
def test_mistakes_are_named_by_field(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        kubeconfig.load(save(tmp_path / "config", content))


def test_writing_keeps_what_others_wrote(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config"
    file.parent.mkdir()
    save(file, whole({"token": "old"}) | {"preferences": {"colors": True}})
    kubeconfig.write(kubeconfig.single("kai", "https://h:1", token="t", ca_pem=b"CA"), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kubeconfig.load(str(file)).server == "https://h:1", "the new context is current"
    assert kubeconfig.load(str(file), "x").token == "old"
    assert yaml.safe_load(file.read_text())["preferences"] == {"colors": True}
    kubeconfig.write(kubeconfig.single("kai", "https://h:2", namespace="n"), file)
    found = kubeconfig.load(str(file))
    assert (found.server, found.namespace, found.ca_pem) == ("https://h:2", "n", None)
    kubeconfig.forget("kai", file)
    assert set(kubeconfig.read(str(file))["contexts"]) == {"x"}
    assert yaml.safe_load(file.read_text())["current-context"] == ""
    assert sorted(p.name for p in file.parent.iterdir()) == ["config"], "no scratch files stay"

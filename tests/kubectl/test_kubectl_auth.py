"""Who kubectl is, and what it may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kai_ray.cluster import resources as r
from kai_ray.cluster.rest import RestServer

from .conftest import Kubectl


def test_whoami_and_can_i(kubectl: Kubectl) -> None:
    who = kubectl("auth", "whoami")
    assert "kai-admin" in who and "system:masters" in who
    assert kubectl("auth", "can-i", "create", "rayjobs.ray.io") == "yes\n"
    assert kubectl("auth", "can-i", "list", "pods", "--as", "nobody", ok=False).startswith("no")
    assert "selfsubjectreviews" in kubectl("auth", "can-i", "--list", "--as", "nobody")


def test_roles_open_what_they_name_and_no_more(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list,watch", "--resource=pods,pods/log")
    kubectl("create", "rolebinding", "reads", "--role=reader", "--user=ann", "--group=readers")
    may = ("auth", "can-i")
    assert kubectl(*may, "list", "pods", "--as", "ann") == "yes\n"
    assert kubectl(*may, "get", "pods", "--subresource=log", "--as", "x", "--as-group", "readers")
    assert kubectl(*may, "delete", "pods", "--as", "ann", ok=False).startswith("no")
    assert kubectl(*may, "list", "pods", "-n", "default", "--as", "ann", ok=False).startswith("no")
    assert kubectl("get", "pods", "--as", "ann") == ""
    said = kubectl("get", "configmaps", "--as", "ann", ok=False)
    assert 'User "ann" cannot list resource "configmaps"' in said
    kubectl("create", "clusterrolebinding", "sees", "--clusterrole=view", "--user=ann")
    assert kubectl("get", "configmaps", "--as", "ann", "-o", "name") != None  # noqa: E711
    kubectl("delete", "clusterrolebinding", "sees")


def test_a_wrong_token_is_turned_away(kubectl: Kubectl, server: RestServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    from kai_ray.cluster import kubeconfig

    kubeconfig.write(server.kubeconfig(token="not-the-token"), config)
    stranger = replace(kubectl, env=kubectl.env | {"KUBECONFIG": str(config)})
    said = stranger("get", "pods", ok=False)
    assert "Unauthorized" in said or "logged in" in said


def test_a_service_account_gets_a_token_that_works(
    kubectl: Kubectl, server: RestServer, tmp_path: Path
) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot").strip()
    account = f"{kubectl.namespace}:robot"
    kubectl("create", "rolebinding", "edits", "--clusterrole=edit", f"--serviceaccount={account}")
    config = tmp_path / "config"
    from kai_ray.cluster import kubeconfig

    kubeconfig.write(server.kubeconfig(token=token), config)
    robot = replace(kubectl, env=kubectl.env | {"KUBECONFIG": str(config)})
    assert f"system:serviceaccount:{account}" in robot("auth", "whoami")
    robot("create", "configmap", "made-by-robot")
    assert "forbidden" in robot("get", "nodes", ok=False)
    assert kubectl.store.get(r.CONFIG_MAP, "made-by-robot", kubectl.namespace)

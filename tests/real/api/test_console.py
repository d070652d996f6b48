"""The console beside a real API server: tokens and rights are the server's own."""

from __future__ import annotations

import re
from collections.abc import Callable

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object
from kai_ray.manager import rights
from tests.console.conftest import Client
from tests.real.api.work import bound, job, until
from tests.real.control_plane import ControlPlane
from tests.real.programs import Program


def console_port(process: Program) -> int:
    """Where it answers browsers, by its own word."""
    found: list[str] = []

    def said() -> bool:
        found[:] = re.findall(r"console http://127.0.0.1:(\d+)/", process.log.read_text())
        return bool(found)

    until(said, what="it says where its console is")
    return int(found[0])


def token(plane: ControlPlane, account: str, namespace: str) -> str:
    """A token of a service account, as `kubectl create token` gets it."""
    meta = {"name": account, "namespace": namespace}
    plane.port.create(r.SERVICE_ACCOUNT, {"metadata": meta})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(plane.port.raw("POST", path, body)["status"]["token"])


def bind(plane: ControlPlane, account: str, namespace: str, role: str, *, wide: bool) -> None:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    binding: Object = {
        "metadata": {"name": f"{namespace}-{account}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    if not wide:
        binding["metadata"]["namespace"] = namespace
    plane.port.create(r.CLUSTER_ROLE_BINDING if wide else r.ROLE_BINDING, binding)


def test_viewers_see_and_change_what_the_server_lets_them(
    ours: ControlPlane,
    real_namespace: str,
    gpu_nodes: Callable[..., list[str]],
    kai_run: Callable[..., Program],
) -> None:
    gpu_nodes(2, prefix="console")
    port, space = ours.port, real_namespace
    other = ours.namespace("hidden")
    for name, where in (("seen", space), ("covert", other)):
        port.create(r.JOB, job(name, where, 1))
    for role in rights.queue_roles(space):
        port.create(r.CLUSTER_ROLE, role)
    ada, bob = token(ours, "ada", space), token(ours, "bob", space)
    bind(ours, "ada", space, "view", wide=False)
    bind(ours, "bob", space, f"{space}-queue-editor", wide=True)

    process = kai_run("--console", "127.0.0.1:0", name="console")
    at = console_port(process)
    until(lambda: bound(port, space, "seen") == 1, what="it is bound")
    until(lambda: bound(port, other, "covert") == 1, what="the other is bound")

    viewer = Client(at, ada)
    until(
        lambda: [j["name"] for j in viewer.get("/jobs")["jobs"]] == ["seen"], what="its job is seen"
    )
    told = viewer.get("/session")
    assert told["user"] == f"system:serviceaccount:{space}:ada"
    assert (told["namespaces"], told["mayReadNodes"], told["mayEditQueues"]) == (
        [space],
        False,
        False,
    )
    assert viewer.get(f"/jobs/{space}/Job/seen")["gangs"][0]["members"][0]["node"]
    assert viewer.send("GET", f"/api/v1/jobs/{other}/Job/covert").status == 404
    assert b"kind: Job" in viewer.send("GET", f"/api/v1/jobs/{space}/Job/seen/yaml").body
    assert viewer.write("PATCH", "/queues/default-queue", {"priority": 1}).status == 403

    editor = Client(at, bob)
    assert editor.get("/session")["mayEditQueues"]
    assert editor.get("/jobs")["total"] == 0
    version = editor.get("/queues/default-queue")["resourceVersion"]
    change = {"resourceVersion": version, "gpu": {"quota": 3}}
    assert editor.write("PATCH", "/queues/default-queue", change).status == 200
    assert port.get(r.QUEUE, "default-queue")["spec"]["resources"]["gpu"]["quota"] == 3
    late = editor.write("PATCH", "/queues/default-queue", {"resourceVersion": "1", "priority": 2})
    assert late.status == 409
    wrong = editor.write("PATCH", "/queues/default-queue", {"gpu": {"quota": 9, "limit": 8}})
    assert (wrong.status, wrong.error["field"]) == (422, "gpu.quota")
    editor.write("PATCH", "/queues/default-queue", {"gpu": {"quota": 0}})
    assert Client(at, f"{ada}x").send("GET", "/api/v1/overview").status == 401

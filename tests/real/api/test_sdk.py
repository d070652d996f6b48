"""A pipeline's day with `import kai_ray` against a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import kai_ray
from kai_ray.cluster import kube, kubeconfig
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound
from kai_ray.manager import Manager
from kai_ray.podgrouper.manifests import parse_documents
from kai_ray.sdk.client import Client
from tests.real.control_plane import ControlPlane

QUEUE = "sdk-team"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def kai(ours: ControlPlane, real_namespace: str) -> Iterator[Client]:
    port = kube.connect(str(ours.kubeconfig))
    with (
        Manager(port),
        kai_ray.connect(kubeconfig=ours.kubeconfig, namespace=real_namespace) as kai,
    ):
        kai.create_queue(QUEUE, gpu=4)
        yield kai
    port.close()
    with suppress(NotFound):
        ours.port.delete(r.QUEUE, QUEUE)


def batch(name: str, gpus: int, run_for: str = "") -> dict:
    """A Job of the user's; `kwok.kai/run-for` on its pods says how long they run."""
    obj = kai_ray.BatchJob(name, image="busybox", gpus=gpus).manifest()
    obj["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    if run_for:
        obj["spec"]["template"]["metadata"] = {"annotations": {"kwok.kai/run-for": run_for}}
    return obj


def test_a_day_with_the_sdk(kai: Client, gpu_nodes: Callable[..., list[str]]) -> None:
    (node,) = gpu_nodes(1, 4, prefix="sdk")
    with pytest.raises(kai_ray.InvalidManifest, match="parallelism"):
        kai.submit(batch("bad", 1) | {"spec": {"parallelism": -1}}, dry_run="server")

    held = kai.submit(batch("held", 4), queue=QUEUE).wait(60, until="started")
    assert held.nodes == (node,)
    again = kai.submit(batch("held", 4), queue=QUEUE)
    assert again == held, "the same manifest again is the same job"

    late = kai.submit(batch("late", 2, run_for="1s"), queue=QUEUE).wait(60, until="decided")
    assert (late.status, late.reason) == ("Waiting", "InsufficientGpu")
    assert "lacks" in str(late.explain())
    assert "Unschedulable" in {event.reason for event in late.events()}

    assert held.suspend(timeout=60).status == "Suspended"
    assert late.wait(60).status == "Succeeded"
    assert held.resume().wait(60, until="started").status == "Running"
    held.delete()
    assert held.status == "Deleted"
    late.delete()
    kai.queue(QUEUE).pause()
    assert kai.queue(QUEUE).state == "Paused"


def test_fields_that_others_set_are_not_taken_over_unasked(kai: Client, ours: ControlPlane) -> None:
    manifest = batch("shared", 1)
    manifest["spec"]["suspend"] = True
    job = kai.submit(manifest, queue=QUEUE)
    ours.port.patch(
        r.JOB,
        "shared",
        {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}},
        kai.namespace,
        patch_type="apply",
        field_manager="autoscaler",
        force=True,
    )
    with pytest.raises(kai_ray.Conflict, match=r"force=True"):
        kai.submit(manifest, queue=QUEUE)
    assert kai.submit(manifest, queue=QUEUE, force=True).manifest["spec"]["parallelism"] == 1
    job.delete()


EXPLAINING = ("ClusterRole", "ClusterRoleBinding")


def test_a_step_of_a_pipeline_needs_the_rights_that_the_example_gives(
    kai: Client,
    ours: ControlPlane,
    gpu_nodes: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Found and used as a pod finds them: the service account's token in a folder."""
    gpu_nodes(1, 2, prefix="step")
    space = kai.namespace
    text = (EXAMPLES / "sdk" / "rights.yaml").read_text().replace("default", space)
    rights = [document.object for document in parse_documents(text, "rights.yaml")]
    kai.submit_all([obj for obj in rights if obj["kind"] not in EXPLAINING])
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{space}/serviceaccounts/pipeline/token"
    (tmp_path / "token").write_text(ours.port.raw("POST", path, asked)["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(ours.ca_pem)
    (tmp_path / "namespace").write_text(space)
    server = urlsplit(ours.url)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KAI_KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAI_HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", server.hostname or "")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    in_cluster = kubeconfig.in_cluster
    monkeypatch.setattr(kubeconfig, "in_cluster", lambda: in_cluster(tmp_path))
    with kai_ray.connect() as step:
        assert step.origin == "the pod's service account"
        assert step.namespace == space
        job = step.submit(batch("step", 1, run_for="1s"), queue=QUEUE)
        assert job.wait(60).status == "Succeeded"
        assert job.events()
        with pytest.raises(kai_ray.Denied, match="cannot list"):
            job.explain()
        with pytest.raises(kai_ray.Denied):
            step.queue(QUEUE)
        job.delete()
        waiting = step.submit(batch("waiting", 3), queue=QUEUE).wait(60, until="decided")
        assert waiting.eta is None
        kai.submit_all([obj for obj in rights if obj["kind"] in EXPLAINING])
        try:
            assert waiting.explain().reason == waiting.reason
        finally:
            for resource in (r.CLUSTER_ROLE, r.CLUSTER_ROLE_BINDING):
                ours.port.delete(resource, "kai-explain")
        waiting.delete()

"""The chart from lint to uninstall, by the real helm on a real API server."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kai_ray.admission import webhooks
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import NotFound, Object
from tests.real.chart.census import everything, lease_names
from tests.real.chart.release import CHART, NAME, NAMESPACE, HelmFailed, Release
from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

#: What stays after an uninstall, as docs/install.md says.
KEPT = {
    *(
        f"CustomResourceDefinition {name}"
        for name in (
            "bindrequests.scheduling.run.ai",
            "configs.kai.scheduler",
            "gpunodestates.kai.scheduler",
            "podgroups.scheduling.run.ai",
            "queues.scheduling.run.ai",
            "schedulingshards.kai.scheduler",
            "topologies.kai.scheduler",
        )
    ),
    "Namespace kai-resource-reservation",
    "ServiceAccount kai-resource-reservation/kai-resource-reservation",
}
#: What Kubernetes itself puts into any namespace, and what is in the one that is kept.
USUAL = re.compile(
    r"(ConfigMap|ServiceAccount) [^/]+/(kube-root-ca.crt|default)$|Pod kai-resource-reservation/"
)


def _job(name: str, namespace: str, pods: int, gpus: int = 4) -> Object:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    container = {"name": "main", "image": "app", "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    notes = {"kai.scheduler/batch-min-member": str(pods)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "annotations": notes},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def _pods(plane: ControlPlane, namespace: str, job: str) -> list[Object]:
    return plane.port.list(kinds.POD, namespace, labels=f"job-name={job}").items


def _run(plane: ControlPlane, namespace: str, job: str) -> bool:
    pods = _pods(plane, namespace, job)
    return bool(pods) and all(pod["status"].get("phase") == "Running" for pod in pods)


def _wait(done: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.1)


@pytest.fixture
def release(chart_plane: ControlPlane) -> Iterator[Release]:
    """Not installed yet; gone after the test, also where that fails."""
    made = Release(chart_plane)
    yield made
    made.stop()
    with contextlib.suppress(HelmFailed):
        made.uninstall()


def test_it_is_linted(chart_plane: ControlPlane) -> None:
    assert "0 chart(s) failed" in Release(chart_plane).helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replicas": "many"}, "replicas"),
        ({"replica": 2}, "replica"),
        ({"admission": {"webhook": {"certificate": "none"}}}, "certificate"),
        ({"defaultQueues": {"share": {"quota": -2}}}, "quota"),
        ({"admission": {"webhook": {"certManager": {"enabled": True}}}}, "certificate: provided"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
    ],
)
def test_values_that_make_no_sense_are_named(
    chart_plane: ControlPlane, values: dict[str, Any], complaint: str
) -> None:
    release = Release(chart_plane)
    release.values = values
    with pytest.raises(HelmFailed) as caught:
        release.helm("template", NAME, str(CHART), "--kube-version=1.36.0", values=True)
    assert complaint in str(caught.value)


def test_older_servers_get_the_routing_by_webhook(chart_plane: ControlPlane) -> None:
    release = Release(chart_plane)
    release.values = {"replicas": 2, "admission": {"webhook": {"everyPod": True}}}
    args = ("template", NAME, str(CHART), "-n", NAMESPACE)
    old = _manifests(release.helm(*args, "--kube-version=1.32.0", values=True))
    new = _manifests(
        release.helm(
            *args,
            "--kube-version=1.36.0",
            "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
            values=True,
        )
    )
    hooks = ["routing.pods", "shares.pods", "all.pods"]
    assert [w["failurePolicy"] for w in old["MutatingWebhookConfiguration"][0]["webhooks"]] == [
        "Fail",
        "Fail",
        "Ignore",
    ]
    assert [_short(w) for w in old["MutatingWebhookConfiguration"][0]["webhooks"]] == hooks
    assert [_short(w) for w in new["MutatingWebhookConfiguration"][0]["webhooks"]] == hooks[1:]
    assert "MutatingAdmissionPolicy" not in old and new["MutatingAdmissionPolicy"]
    assert old["PodDisruptionBudget"]


def test_cert_manager_may_make_the_certificate(chart_plane: ControlPlane) -> None:
    release = Release(chart_plane)
    webhook = {"certificate": "provided", "certManager": {"enabled": True}}
    release.values = {"admission": {"webhook": webhook}}
    args = ("template", NAME, str(CHART), "-n", NAMESPACE, "--kube-version=1.36.0")
    made = _manifests(release.helm(*args, values=True))
    (certificate,) = made["Certificate"]
    assert certificate["spec"]["dnsNames"] == [f"{NAME}.{NAMESPACE}.svc"]
    assert certificate["spec"]["secretName"] == "kai-ray-webhook"
    assert made["Issuer"] and "Secret" not in made
    (container,) = made["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert "--webhook-certificate=provided" in container["args"]


def _manifests(rendered: str) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for manifest in yaml.safe_load_all(rendered):
        if manifest:
            found.setdefault(manifest["kind"], []).append(manifest)
    return found


def _short(webhook: Object) -> str:
    return webhook["name"].removesuffix(".kai-ray.kai.scheduler")


def test_from_install_to_uninstall(release: Release) -> None:
    plane, port = release.plane, release.plane.port
    user = plane.namespace("user")
    port.patch(kinds.NAMESPACE, user, {"metadata": {"labels": {"kai.scheduler/managed": "true"}}})
    before = everything(port)

    said = release.install()
    assert "kubectl label namespace" in said
    release.start()
    port.create(kinds.JOB, _job("gang", user, 3))
    port.create(kinds.JOB, _job("too-large", user, 3, gpus=8))
    _wait(lambda: _run(plane, user, "gang"))
    assert not any(p["spec"].get("nodeName") for p in _pods(plane, user, "too-large"))
    _share(release, user)
    explained = plane.kubectl("explain", "queue.spec.preemptMinRuntime")
    assert "How long a job runs before" in explained

    _upgrade(release, user)
    assert "forbidden" not in release.log, _lines(release.log, "forbidden")

    release.uninstall()  # while the process still answers, as its pod would
    release.stop()
    assert _run(plane, user, "gang")  # what runs, runs on
    _go(plane, user)
    left = {name for name in everything(port) - before - KEPT if not USUAL.match(name)}
    assert left <= {f"Namespace {NAMESPACE}"}  # helm made it, and leaves it
    assert lease_names(port, NAMESPACE) == []
    made = port.create(kinds.POD, _plain(user), dry_run=True)
    assert made["spec"]["schedulerName"] == "default-scheduler"


def _share(release: Release, user: str) -> None:
    """Our account may keep a card for a pod that shares it."""
    port = release.plane.port
    pod = _plain(user)
    pod["metadata"] |= {"name": "half", "annotations": {"gpu-fraction": "0.5"}}
    port.create(kinds.POD, pod)
    _wait(lambda: bool(port.list(kinds.POD, "kai-resource-reservation").items))
    port.delete(kinds.POD, "half", user)


def _upgrade(release: Release, user: str) -> None:
    """What users changed stays, what runs runs on, definitions are brought in line."""
    plane, port = release.plane, release.plane.port
    port.patch(kinds.QUEUE, "default-queue", {"spec": {"resources": {"gpu": {"quota": 3}}}})
    old = {"metadata": {"labels": {"old": "true"}}, "spec": {"names": {"shortNames": ["older"]}}}
    port.patch(kinds.CRD, "queues.scheduling.run.ai", old)
    secret = port.get(kinds.SECRET, "kai-ray-webhook", NAMESPACE)["data"]
    release.stop()
    release.values["extraArgs"] = ["--period=0.5"]
    release.values["queues"] = [{"name": "team", "spec": {"resources": {}}}]
    release.upgrade()
    release.start()
    assert "--period=0.5" in release.pod()["containers"][0]["args"]
    assert port.get(kinds.SECRET, "kai-ray-webhook", NAMESPACE)["data"] == secret
    queue = port.get(kinds.QUEUE, "default-queue")
    assert queue["spec"]["resources"]["gpu"]["quota"] == 3
    assert port.get(kinds.QUEUE, "team")
    names = port.get(kinds.CRD, "queues.scheduling.run.ai")["spec"]["names"]
    assert names["shortNames"] == ["kq"]
    assert _run(plane, user, "gang")
    port.create(kinds.JOB, _job("later", user, 1, gpus=0))
    _wait(lambda: _run(plane, user, "later"))


def _plain(namespace: str) -> Object:
    containers = [{"name": "main", "image": "app"}]
    return {
        "metadata": {"name": "plain", "namespace": namespace},
        "spec": {"containers": containers},
    }


def _go(plane: ControlPlane, user: str) -> None:
    """The user's jobs end; with them go their gangs."""
    for job in ("gang", "too-large", "later"):
        plane.port.delete(kinds.JOB, job, user)
    _wait(lambda: not plane.port.list(kinds.POD_GROUP, user).items, 60)
    _wait(lambda: not plane.port.list(kinds.POD, user).items, 60)


def _lines(text: str, word: str) -> str:
    return "\n".join(line for line in text.splitlines() if word in line)


def test_after_an_uninstall_it_can_be_installed_again(release: Release) -> None:
    port = release.plane.port
    release.values = {"replicas": 2}  # as users install it: the webhook is a Service
    release.install()
    (webhook,) = port.get(webhooks.MUTATING, NAME)["webhooks"]
    assert webhook["clientConfig"]["service"]["name"] == NAME
    assert port.get(kinds.SERVICE, NAME, NAMESPACE)
    release.uninstall()
    with pytest.raises(NotFound):
        port.get(kinds.QUEUE, "default-queue")

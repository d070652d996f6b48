"""Routing, variables, warnings; and what happens to whose pods while all of ours is down."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from kai_ray.admission import webhooks
from kai_ray.admission.certificate_keeper import KeeperConfig
from kai_ray.admission.runtime_class import RUNTIME_CLASS
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, ApiError, Object, Port
from kai_ray.manager.admission import AdmissionConfig, AdmissionService
from tests.admission import bad_fields
from tests.control import objects
from tests.real.chart.release import NAMESPACE, Release
from tests.real.control_plane import LOOPBACK, part

pytestmark = pytest.mark.real
_NUMBERS = itertools.count()


def _pod(namespace: str, scheduler: str = "", **more: Any) -> Object:
    made = objects.pod(f"p{next(_NUMBERS)}", namespace=namespace, scheduler=scheduler, **more)
    (container,) = made["spec"]["containers"]
    container["resources"]["limits"] = container["resources"]["requests"]
    made["metadata"] = {k: v for k, v in made["metadata"].items() if k != "creationTimestamp"}
    del made["status"]
    return made


@pytest.fixture(scope="module")
def managed(release: Release) -> Iterator[str]:
    name = release.plane.namespace("managed")
    labels = {"metadata": {"labels": {"kai.scheduler/managed": "true"}}}
    release.plane.port.patch(kinds.NAMESPACE, name, labels)
    yield name
    release.plane.port.delete(kinds.NAMESPACE, name)


@pytest.fixture(scope="module")
def foreign(release: Release) -> Iterator[str]:
    name = release.plane.namespace("foreign")
    yield name
    release.plane.port.delete(kinds.NAMESPACE, name)


def _created(release: Release, pod: Object) -> Object:
    return release.plane.port.create(kinds.POD, pod, dry_run=True)


def test_pods_of_managed_namespaces_become_ours(release: Release, managed: str) -> None:
    made = _created(release, _pod(managed))
    assert made["spec"]["schedulerName"] == "kai-scheduler"


def test_a_pod_with_two_equal_ports_and_variables_is_routed_like_any(
    release: Release, managed: str
) -> None:
    pod = _pod(managed)
    (container,) = pod["spec"]["containers"]
    container["ports"] = [{"containerPort": 80}, {"containerPort": 80, "name": "again"}]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    made = _created(release, pod)
    assert made["spec"]["schedulerName"] == "kai-scheduler"
    assert len(made["spec"]["containers"][0]["ports"]) == 2


def test_other_pods_pass_untouched(release: Release, managed: str, foreign: str) -> None:
    notes = {"gpu-fraction": "nonsense", "pod-group-name": "No Name"}
    for namespace, scheduler, expected in (
        (foreign, "", "default-scheduler"),
        (foreign, "other", "other"),
        (managed, "other", "other"),
    ):
        made = _created(release, _pod(namespace, scheduler, annotations=notes))
        assert made["spec"]["schedulerName"] == expected
        assert "env" not in made["spec"]["containers"][0]


def test_a_pod_that_its_maker_put_on_a_node_stays_the_makers(
    release: Release, managed: str
) -> None:
    made = _created(release, _pod(managed, node="gpu-0"))
    assert made["spec"]["schedulerName"] == "default-scheduler"


def test_a_pod_that_shares_gpus_gets_its_variables(release: Release, managed: str) -> None:
    made = _created(release, _pod(managed, annotations={"gpu-fraction": "0.5"}, gpus=0))
    (container,) = made["spec"]["containers"]
    env = {variable["name"]: variable for variable in container["env"]}
    assert "configMapKeyRef" in env["GPU_PORTION"]["valueFrom"]
    assert "runtimeClassName" not in made["spec"]  # there is no such class here
    release.plane.port.create(RUNTIME_CLASS, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    made = _created(release, _pod(managed, annotations={"gpu-fraction": "0.5"}, gpus=0))
    assert made["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in _created(release, _pod(managed, gpus=1))["spec"]
    release.plane.port.delete(RUNTIME_CLASS, "nvidia")


def test_a_pod_of_a_suspended_gang_comes_in_behind_a_gate(release: Release, managed: str) -> None:
    port = release.plane.port
    group = objects.podgroup("stopped", "default-queue", 1, namespace=managed)
    group["metadata"]["annotations"] = {"kai.scheduler/suspended": "true"}
    port.create(kinds.POD_GROUP, group)
    made = _created(release, _pod(managed, annotations={"pod-group-name": "stopped"}))
    assert [gate["name"] for gate in made["spec"]["schedulingGates"]]
    other = _created(release, _pod(managed, annotations={"pod-group-name": "another"}))
    assert "schedulingGates" not in other["spec"]


def test_a_queue_with_children_stays_until_they_go(release: Release) -> None:
    port = release.plane.port
    port.create(kinds.QUEUE, objects.queue("above"))
    port.create(kinds.QUEUE, objects.queue("below", "above"))
    with pytest.raises(ApiError, match=r"child queues \(below\): delete them"):
        port.delete(kinds.QUEUE, "above")
    with pytest.raises(ApiError, match="makes a cycle"):
        port.patch(kinds.QUEUE, "above", {"spec": {"parentQueue": "below"}})
    port.delete(kinds.QUEUE, "below")
    port.delete(kinds.QUEUE, "above")


def test_a_placed_pod_keeps_what_it_asked_for(release: Release, managed: str) -> None:
    port = release.plane.port
    notes = {"gpu-memory": "8000"}
    pod = port.create(
        kinds.POD, _pod(managed, "kai-scheduler", annotations=notes, gpus=0, node="gpu-0")
    )
    patch = {"metadata": {"annotations": {"gpu-memory": "80000"}}}
    with pytest.raises(ApiError) as caught:
        port.patch(kinds.POD, pod["metadata"]["name"], patch, managed)
    assert "metadata.annotations[gpu-memory]: cannot change" in caught.value.message
    other = {"metadata": {"annotations": {"note": "fine"}}}
    port.patch(kinds.POD, pod["metadata"]["name"], other, managed)


def _warnings(release: Release, obj: Object) -> str:
    command = [str(part("kubectl")), "create", "--dry-run=server", "-f", "-"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(release.plane.kubeconfig)],
        input=json.dumps(obj),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def _job(namespace: str, *, queue: str = "", gpus: int = 1, **pod: Any) -> Object:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    container = {"name": "main", "image": "app", "resources": resources}
    labels = {"kai.scheduler/queue": queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "job-", "namespace": namespace, "labels": labels},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
        },
    }


def test_users_hear_at_once_what_a_workload_will_wait_for(
    release: Release, managed: str, foreign: str
) -> None:
    said = _warnings(release, _job(foreign, queue="default-queeu"))
    assert "'default-queeu' does not exist" in said and "did you mean 'default-queue'?" in said
    said = _warnings(release, _job(managed, gpus=16))
    assert "asks for 16 nvidia.com/gpu" in said and "the largest has 8" in said
    h200 = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    said = _warnings(release, _job(managed, nodeSelector=h200))
    assert "no node has nvidia.com/gpu.product=NVIDIA-H200" in said and "H100" in said
    for harmless in (_job(managed), _job(foreign, gpus=16)):
        assert "Warning" not in _warnings(release, harmless)


class _Asked:
    """Where the pods are that the webhook was asked about."""

    def __init__(self) -> None:
        self.namespaces: set[str] = set()

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        if request.resource == kinds.POD:
            self.namespaces.add(request.object["metadata"]["namespace"])
        return request.object


def test_the_certificate_changes_under_load_and_nobody_notices(
    release: Release, managed: str, foreign: str
) -> None:
    """Its process gives way to one whose certificates are due for renewal from the start."""
    release.stop()
    config = KeeperConfig(NAMESPACE, valid=timedelta(minutes=20), settle_s=0.7)
    port = release.plane.port
    service = AdmissionService(
        port, AdmissionConfig(config, host=LOOPBACK, port=release.webhook_port)
    )
    asked = _Asked()
    service.server._plugins.insert(0, asked)
    served: list[str] = []
    use = service.keeper._on_change
    service.keeper._on_change = lambda *pair: (served.append(pair[0]), use(*pair))[0]
    refused: list[str] = []
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            try:
                _created(release, _pod(managed, annotations={"gpu-fraction": "0.5"}, gpus=0))
            except ApiError as error:
                refused.append(error.message)

    def replaced(count: int) -> bool:
        return len(set(served)) >= count

    # The Secret of the release holds for a year: the short-lived ones begin when it has gone.
    port.patch(kinds.SECRET, "kai-ray-webhook", {"data": None}, NAMESPACE)
    service.start()
    try:
        _wait(lambda: service.unready() == "")
        thread = threading.Thread(target=load)
        thread.start()
        try:
            _wait(lambda: replaced(4), 30)
            for scheduler in ("", "other"):
                _created(release, _pod(foreign, scheduler, annotations={"gpu-fraction": "0.5"}))
        finally:
            stop.set()
            thread.join()
    finally:
        service.stop()
    assert not refused
    assert asked.namespaces == {managed}  # pods of others never come here
    bundle = port.get(webhooks.MUTATING, "kai-ray")["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle
    port.patch(kinds.SECRET, "kai-ray-webhook", {"data": None}, NAMESPACE)
    release.start()


def test_while_all_of_ours_is_down_others_are_unharmed_and_ours_wait(
    release: Release, managed: str, foreign: str
) -> None:
    port = release.plane.port
    release.kill()
    for namespace, scheduler in ((foreign, ""), (foreign, "other"), (managed, "other")):
        began = time.monotonic()
        port.create(kinds.POD, _pod(namespace, scheduler))
        assert time.monotonic() - began < 1.0
    ours = port.create(kinds.POD, _pod(managed))
    assert ours["spec"]["schedulerName"] == "kai-scheduler"
    half = port.create(kinds.POD, _pod(managed, annotations={"gpu-fraction": "0.5"}, gpus=0))
    assert "GPU_PORTION" in {e["name"] for e in half["spec"]["containers"][0]["env"]}
    port.create(kinds.JOB, _job(managed))
    port.create(kinds.QUEUE, objects.queue("made-meanwhile"))
    for bad in bad_fields.ALL:
        if not bad.by_us:
            with pytest.raises(ApiError):
                port.create(bad.resource, copy.deepcopy(bad.obj), dry_run=True)
    assert not _bound(release, ours)
    release.start()
    _wait(lambda: _bound(release, ours))
    port.delete(kinds.QUEUE, "made-meanwhile")


def _bound(release: Release, pod: Object) -> bool:
    about = pod["metadata"]
    found = release.plane.port.get(kinds.POD, about["name"], about["namespace"])
    return bool(found["spec"].get("nodeName"))


def _wait(done: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)

"""The official `kubernetes` package on the REST face."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.rest import RestServer

QUEUES = {"group": "scheduling.run.ai", "version": "v2", "plural": "queues"}


@pytest.fixture(scope="module")
def api(server: RestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = server.write_kubeconfig(tmp_path_factory.mktemp("kube") / "config")
    yield config.new_client_from_config(config_file=str(path))


def pod(name: str, **labels: str) -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1PodSpec(
            containers=[
                client.V1Container(
                    name="main",
                    image="registry.example/main:1",
                    resources=client.V1ResourceRequirements(requests={"cpu": "100m"}),
                )
            ]
        ),
    )


def test_pods_are_created_read_patched_and_deleted(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    made = core.create_namespaced_pod(namespace, pod("p", app="x"))
    assert made.metadata.uid
    assert made.status.phase == "Pending"
    listed = core.list_namespaced_pod(namespace, label_selector="app=x")
    assert [p.metadata.name for p in listed.items] == ["p"]
    core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"app": "y"}}})
    assert core.read_namespaced_pod("p", namespace).metadata.labels == {"app": "y"}
    made = core.read_namespaced_pod("p", namespace)
    made.metadata.annotations = {"note": "z"}
    core.replace_namespaced_pod("p", namespace, made)
    core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod("p", namespace)
    assert caught.value.status == 404


def test_a_stale_replace_is_refused(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    about = client.V1ObjectMeta(name="cm")
    first = core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=about))
    core.patch_namespaced_config_map("cm", namespace, {"data": {"a": "1"}})
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("cm", namespace, first)
    assert (caught.value.status, "Conflict" in str(caught.value.body)) == (409, True)


def test_pods_are_bound_and_evicted(api: Any, store: MemoryStore, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("p"))
    target = client.V1ObjectReference(api_version="v1", kind="Node", name="gpu-0")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
    # Its answer is a Status, which the client cannot read as the Binding that it expects.
    core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("p", namespace).spec.node_name == "gpu-0"
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace))
    core.create_namespaced_pod_eviction("p", namespace, eviction, _preload_content=False)
    left = [p for p in store.list(r.POD, namespace).items]
    assert all(p["metadata"].get("deletionTimestamp") for p in left)


def test_a_watch_sees_what_happens(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    since = core.list_namespaced_pod(namespace).metadata.resource_version
    seen: list[tuple[str, str]] = []

    def follow() -> None:
        events: Any = watch.Watch().stream(
            core.list_namespaced_pod, namespace, resource_version=since, timeout_seconds=20
        )
        for event in events:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    core.create_namespaced_pod(namespace, pod("p"))
    core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"a": "b"}}})
    core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
    follower.join(30)
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert {name for _, name in seen} == {"p"}


def test_queues_as_custom_objects(api: Any, store: MemoryStore) -> None:
    custom: Any = client.CustomObjectsApi(api)
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "team-a"},
        "spec": {"parentQueue": "default-parent-queue", "resources": {"gpu": {"quota": 4}}},
    }
    custom.create_cluster_custom_object(body=body, **QUEUES)
    patch = {"spec": {"resources": {"gpu": {"quota": 8}}}}
    custom.patch_cluster_custom_object(name="team-a", body=patch, **QUEUES)
    assert store.get(r.QUEUE, "team-a")["spec"]["resources"]["gpu"]["quota"] == 8
    names = [q["metadata"]["name"] for q in custom.list_cluster_custom_object(**QUEUES)["items"]]
    assert "team-a" in names
    body["spec"] = {"resources": {"gpu": {"quota": -7}}}
    with pytest.raises(ApiException) as caught:
        custom.create_cluster_custom_object(body=body | {"metadata": {"name": "b"}}, **QUEUES)
    assert caught.value.status == 422
    custom.delete_cluster_custom_object(name="team-a", **QUEUES)


def test_the_dynamic_client_discovers_every_kind(api: Any, namespace: str, tmp_path: Path) -> None:
    found: Any = dynamic.DynamicClient(api, cache_file=str(tmp_path / "cache"))
    groups = found.resources.get(api_version="scheduling.run.ai/v2alpha2", kind="PodGroup")
    groups.create(
        body={
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "pg"},
            "spec": {"minMember": 2, "queue": "default-queue"},
        },
        namespace=namespace,
    )
    assert [g.spec.minMember for g in groups.get(namespace=namespace).items] == [2]
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(namespace=namespace).items == []


def test_jobs_and_versions(api: Any, namespace: str) -> None:
    batch: Any = client.BatchV1Api(api)
    job = client.V1Job(
        metadata=client.V1ObjectMeta(name="j"),
        spec=client.V1JobSpec(
            parallelism=2,
            template=client.V1PodTemplateSpec(
                spec=client.V1PodSpec(
                    restart_policy="Never",
                    containers=[client.V1Container(name="c", image="registry.example/c:1")],
                )
            ),
        ),
    )
    made = batch.create_namespaced_job(namespace, job)
    assert made.spec.parallelism == 2
    batch.patch_namespaced_job_status(
        "j", namespace, {"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}}
    )
    assert batch.read_namespaced_job("j", namespace).status.succeeded == 1
    version: Any = client.VersionApi(api).get_code()
    assert version.git_version.startswith("v1.")


def test_leases_serve_leader_election(api: Any, namespace: str) -> None:
    leases: Any = client.CoordinationV1Api(api)
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="l"),
        spec=client.V1LeaseSpec(holder_identity="a", lease_duration_seconds=15),
    )
    first = leases.create_namespaced_lease(namespace, lease)
    first.spec.holder_identity = "b"
    assert leases.replace_namespaced_lease("l", namespace, first).spec.holder_identity == "b"
    with pytest.raises(ApiException) as caught:
        leases.replace_namespaced_lease("l", namespace, first)
    assert caught.value.status == 409


def test_pages_go_on_where_the_last_one_ended(api: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    for i in range(5):
        about = client.V1ObjectMeta(name=f"cm-{i}")
        core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=about))
    names: list[str] = []
    token = None
    while True:
        page = core.list_namespaced_config_map(
            namespace, limit=2, field_selector="metadata.name!=kube-root-ca.crt", _continue=token
        )
        names += [cm.metadata.name for cm in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"cm-{i}" for i in range(5)]


def test_an_expired_watch_says_so(api: Any, store: MemoryStore, namespace: str) -> None:
    core: Any = client.CoreV1Api(api)
    since = core.list_namespaced_secret(namespace).metadata.resource_version
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"))
    core.create_namespaced_secret(namespace, secret)
    store.compact()
    with pytest.raises(ApiException) as caught:
        for _ in watch.Watch().stream(
            core.list_namespaced_secret, namespace, resource_version=since, timeout_seconds=5
        ):
            time.sleep(0)
    assert caught.value.status == 410

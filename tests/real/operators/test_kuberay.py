"""What happens to Ray workloads after they have started, beside the real KubeRay."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object, Resource
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet, kuberay_name
from tests.real.operators.kinds import ADMISSION, FLAG, TEMPLATE
from tests.real.operators.seen import all_bound, node_of
from tests.real.operators.workloads import Style

pytestmark = pytest.mark.real


@pytest.mark.parametrize("route", [ADMISSION, FLAG])
def test_a_service_is_upgraded_onto_a_second_gang(fleet: Fleet, route: str) -> None:
    service = w.ray_service("upgraded", Style())
    fleet.submit(route, service)
    first = active_cluster(fleet, route, service)
    change = {"spec": {"rayClusterConfig": {"rayVersion": "2.59.0"}}}
    fleet.plane.port.patch(R.RAY_SERVICE, "upgraded", change, route)
    second = active_cluster(fleet, route, service, other_than=first)
    assert {first, second} & {""} == set() and first != second
    groups = {g["metadata"]["name"]: g["spec"]["queue"] for g in fleet.pod_groups(route, second)}
    assert list(groups.values()) == [w.QUEUE]
    pods = fleet.seen.pods(route, second)
    assert len(pods) == 3 and all(node_of(pod) for pod in pods)
    assert fleet.until(lambda: not exists(fleet, R.RAY_CLUSTER, first, route))


def active_cluster(fleet: Fleet, route: str, service: Object, other_than: str = "") -> str:
    """The cluster that carries the traffic, once it is another one; "" if that never comes."""

    def name(found: Object) -> str:
        return (found["status"].get("activeServiceStatus") or {}).get("rayClusterName") or ""

    done = fleet.wait(route, service, lambda found: name(found) not in ("", other_than), 90)
    return name(done)


def exists(fleet: Fleet, resource: Resource, name: str, namespace: str) -> bool:
    try:
        fleet.plane.port.get(resource, name, namespace)
    except NotFound:
        return False
    return True


def test_what_the_autoscaler_asks_for_later_joins_the_running_gang(fleet: Fleet) -> None:
    cluster = w.ray_cluster("grows", w.autoscaled(w.ray_spec(Style()), 2, 4))
    fleet.submit(ADMISSION, cluster)
    assert len(fleet.seen.wait(ADMISSION, "grows", all_bound(3))) == 3
    # What Ray's autoscaler beside the head writes.
    ops = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}]
    fleet.plane.port.patch(R.RAY_CLUSTER, "grows", ops, ADMISSION, patch_type="json")
    pods = fleet.seen.wait(ADMISSION, "grows", all_bound(5))
    assert len(pods) == 5 and all(node_of(pod) for pod in pods)
    (group,) = fleet.pod_groups(ADMISSION, "grows")
    floors = {s["name"]: s["minMember"] for s in group["spec"]["subGroups"]}
    assert floors == {"headgroup": 1, "workers": 2}


def test_an_interactive_job_runs_what_its_user_submits(fleet: Fleet) -> None:
    job = w.ray_job("interactive", "InteractiveMode", Style(ours=True))
    fleet.submit(TEMPLATE, job)
    waiting = fleet.wait(TEMPLATE, job, lambda j: j["status"]["jobDeploymentStatus"] == "Waiting")
    assert waiting["status"]["jobDeploymentStatus"] == "Waiting"
    fleet.plane.port.patch(R.RAY_JOB, "interactive", {"spec": {"jobId": "mine"}}, TEMPLATE)
    done = fleet.wait(TEMPLATE, job, lambda j: j["status"].get("jobStatus") == "SUCCEEDED")
    assert done["status"]["jobStatus"] == "SUCCEEDED"


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_a_job_ends_and_its_gpus_are_free(fleet: Fleet, mode: str) -> None:
    job = w.ray_job(f"ends-{mode.lower()}", mode, Style(), shutdownAfterJobFinishes=True)
    fleet.submit(ADMISSION, job)
    done = fleet.wait(
        ADMISSION, job, lambda j: j["status"].get("jobDeploymentStatus") == "Complete"
    )
    assert done["status"]["jobStatus"] == "SUCCEEDED"
    group = fleet.ended_group(ADMISSION, job["metadata"]["name"])
    assert group["status"]["phase"] == "Finished"
    assert not group["status"]["resourcesStatus"]["allocated"].get("nvidia.com/gpu")


def test_with_its_flag_kuberay_itself_refuses_the_default_mode(fleet: Fleet) -> None:
    """Known of KubeRay 1.6: without the flag our admission serves that mode (test_kinds.py)."""
    job = w.ray_job("refused", "K8sJobMode", Style())
    fleet.submit(FLAG, job)
    log = fleet.plane.programs.logs / f"{kuberay_name(L.SCHEDULER_NAME)}.log"
    assert fleet.until(lambda: "does not support RayJob with K8sJobMode" in log.read_text())
    assert fleet.seen.pods(FLAG, "refused") == []


def test_the_flag_carries_queue_and_scheduler_without_our_admission(fleet: Fleet) -> None:
    fleet.submit(FLAG, w.ray_cluster("carried", w.ray_spec(Style())))
    pods = fleet.seen.wait(FLAG, "carried", all_bound(3))
    assert {p["spec"]["schedulerName"] for p in pods} == {L.SCHEDULER_NAME}
    assert {p["metadata"]["labels"].get(L.QUEUE) for p in pods} == {w.QUEUE}

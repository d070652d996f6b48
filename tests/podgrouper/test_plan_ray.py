"""What Ray's kinds become: floors, whole replicas, submitters, injected containers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.podgrouper.planning import Object, gang, gangs, pods, refusal, shape, workload
from tests.podgrouper.world import ray_cluster, worker_group

counts = st.integers(0, 6)


def cluster(*groups: Object, **spec: Any) -> Object:
    return ray_cluster(workerGroupSpecs=list(groups), **spec)


def ray_job(**spec: Any) -> Object:
    body = {"entrypoint": "python x.py", "rayClusterSpec": ray_cluster()["spec"], **spec}
    return workload("ray.io/v1", "RayJob", body)


@given(counts, counts, st.integers(0, 8), st.integers(1, 3), st.booleans(), st.booleans())
def test_the_floor_is_what_kuberay_promises(
    replicas: int, least: int, more: int, hosts: int, autoscaling: bool, suspend: bool
) -> None:
    most = least + more
    group = worker_group(
        replicas=replicas,
        minReplicas=least,
        maxReplicas=most,
        numOfHosts=hosts,
        suspend=suspend,
    )
    found = gang(cluster(group, enableInTreeAutoscaling=autoscaling))
    now = 0 if suspend else sorted((least, replicas, most))[1]
    floor = 0 if suspend else least if autoscaling else now
    assert found.pods == 1 + now * hosts
    assert found.min_member == 1 + floor * hosts


def test_growth_by_the_autoscaler_changes_no_floor() -> None:
    floors = {
        gang(
            cluster(worker_group(replicas=n, maxReplicas=9), enableInTreeAutoscaling=True)
        ).min_member
        for n in (0, 1, 4, 9)
    }
    assert floors == {1}


def test_a_group_of_none_appears_when_it_grows() -> None:
    assert shape(gang(cluster(worker_group(replicas=0)))) == [("headgroup", None, 1, None)]
    grown = shape(gang(cluster(worker_group(replicas=1), enableInTreeAutoscaling=True)))
    assert grown[1:] == [("w", None, 0, None)]


def test_a_replica_over_several_hosts_is_one_unit() -> None:
    group = worker_group(replicas=3, minReplicas=2, maxReplicas=5, numOfHosts=4)
    found = gang(cluster(group, enableInTreeAutoscaling=True))
    assert shape(found)[1:] == [
        ("w", None, None, 2),
        ("w-0", "w", 4, None),
        ("w-1", "w", 4, None),
        ("w-2", "w", 4, None),
    ]
    assert (found.min_member, found.pods) == (9, 13)


def test_group_names_that_the_api_would_refuse_are_mended_and_stay_apart() -> None:
    names = ["GPU_group", "gpu-group", "headgroup", "submitter"]
    found = gang(cluster(*(worker_group(groupName=n, replicas=1) for n in names)))
    assert [s[0] for s in shape(found)] == [
        "headgroup",
        "gpu-group",
        "gpu-group-2",
        "headgroup-2",
        "submitter-2",
    ]


def test_the_submitter_is_accounted_but_no_start_waits_for_it() -> None:
    found = gang(ray_job())
    assert shape(found)[-1] == ("submitter", None, 0, None)
    assert (found.min_member, found.pods) == (3, 4)
    assert found.requests == {"cpu": "3500m", "memory": "712Mi"}
    assert found.name == "pg-w-<id>-<uid>"


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_modes_without_a_submitter_pod_have_none(mode: str) -> None:
    found = gang(ray_job(submissionMode=mode))
    assert (found.pods, found.requests["cpu"]) == (3, "3")


def test_the_sidecar_submitter_makes_the_head_larger() -> None:
    found = gang(ray_job(submissionMode="SidecarMode"))
    assert (found.pods, found.requests["cpu"]) == (3, "3500m")


def test_a_submitter_template_is_taken_as_it_is() -> None:
    found = gang(ray_job(submitterPodTemplate=pods("250m")))
    assert found.requests["cpu"] == "3250m"


def test_the_autoscaler_sits_in_the_head() -> None:
    plain, grows = ray_cluster(), ray_cluster(enableInTreeAutoscaling=True)
    own = ray_cluster(
        enableInTreeAutoscaling=True,
        autoscalerOptions={"resources": {"requests": {"cpu": "2"}}},
    )
    assert [gang(c).requests["cpu"] for c in (plain, grows, own)] == ["3", "3500m", "5"]


def test_a_job_on_a_foreign_cluster_is_its_submitter_only() -> None:
    job = ray_job(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "other"})
    found = gang(job)
    assert (found.min_member, found.pods, found.sub_groups) == (1, 1, ())
    assert gangs({**job, "spec": {**job["spec"], "submissionMode": "HTTPMode"}}) == ()


def test_a_cron_job_is_one_of_its_runs_with_the_labels_of_the_schedule() -> None:
    cron = workload(
        "ray.io/v1",
        "RayCronJob",
        {"schedule": "* * * * *", "jobTemplate": ray_job()["spec"]},
        labels={"kai.scheduler/queue": "nightly"},
    )
    found = gang(cron)
    assert (found.queue, found.min_member, found.name) == ("nightly", 3, "pg-w-<id>-<id>-<uid>")


def test_a_service_has_a_group_for_its_cluster() -> None:
    service = workload("ray.io/v1", "RayService", {"rayClusterConfig": ray_cluster()["spec"]})
    assert (gang(service).min_member, gang(service).name) == (3, "pg-w-<id>-<uid>")


def test_each_group_may_ask_for_its_own_topology() -> None:
    notes = {
        "kai.scheduler/topology": "racks",
        "kai.scheduler/topology-required-placement": "rack",
    }
    template = {**pods(), "metadata": {"annotations": notes}}
    found = gang(cluster(worker_group(replicas=1, template=template)))
    asked = found.sub_groups[1].topology
    assert asked is not None
    assert (asked.name, asked.required, asked.preferred) == ("racks", "rack", "")
    del notes["kai.scheduler/topology"]
    whole = cluster(worker_group(replicas=1, template=template))
    whole["metadata"]["annotations"] = {"kai.scheduler/topology": "zones"}
    inherited = gang(whole).sub_groups[1].topology
    assert inherited is not None
    assert inherited.name == "zones"
    assert "workerGroupSpecs[0].template.metadata.annotations" in refusal(
        cluster(worker_group(replicas=1, template=template))
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"workerGroupSpecs": [worker_group(replicas=-1)]}, "workerGroupSpecs[0].replicas"),
        ({"workerGroupSpecs": [worker_group(replicas="2")]}, "workerGroupSpecs[0].replicas"),
        (
            {"workerGroupSpecs": [worker_group(minReplicas=3, maxReplicas=2)]},
            "workerGroupSpecs[0].minReplicas",
        ),
        ({"workerGroupSpecs": [worker_group(template=None)]}, "workerGroupSpecs[0].template"),
        ({"workerGroupSpecs": {"a": 1}}, "workerGroupSpecs"),
        ({"headGroupSpec": {}}, "headGroupSpec.template"),
        ({"enableInTreeAutoscaling": "yes"}, "enableInTreeAutoscaling"),
        (
            {"workerGroupSpecs": [worker_group(replicas=10**6, numOfHosts=2)]},
            "workerGroupSpecs",
        ),
        (
            {
                "workerGroupSpecs": [
                    worker_group(groupName=f"g{i}", replicas=1) for i in range(10_001)
                ]
            },
            "workerGroupSpecs",
        ),
    ],
)
def test_what_cannot_be_grouped_is_refused_with_its_field(spec: Object, field: str) -> None:
    assert f"spec.{field}" in refusal(ray_cluster(**spec)) or field in refusal(ray_cluster(**spec))

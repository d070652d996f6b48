"""The embedded cluster as a whole: real and virtual time, over HTTP, stopped and gone on with."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.kube import KubePort
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import get, job, phase, pod, status_condition


def test_real_time_runs_in_a_thread_and_ends_cleanly() -> None:
    before = set(threading.enumerate())
    cluster = EmbeddedCluster(ClusterConfig.short("2x8"))
    cluster.start()
    cluster.client.create(R.JOB, job("j", annotations={L.RUN_TIME: "200ms"}))
    assert cluster.run_until(
        lambda: status_condition(get(cluster, R.JOB, "j"), "Complete") == "True", 20
    )
    cluster.stop()
    cluster.stop()
    assert set(threading.enumerate()) <= before


def test_a_virtual_clock_is_not_waited_for() -> None:
    with EmbeddedCluster(ClusterConfig.short("1x1"), VirtualClock()) as cluster:
        with pytest.raises(ValueError, match="run_until"):
            cluster.start()
        start = cluster.clock.now()
        cluster.run_for(3600)
        assert cluster.clock.now() == start + 3600


def test_it_ships_what_unlabelled_samples_need() -> None:
    with EmbeddedCluster(ClusterConfig.short("1x1"), VirtualClock()) as cluster:
        queues = {q["metadata"]["name"] for q in cluster.client.list(R.QUEUE).items}
        assert queues >= {"default-parent-queue", "default-queue"}
        classes = {
            c["metadata"]["name"]: c["value"] for c in cluster.client.list(R.PRIORITY_CLASS).items
        }
        assert {
            "train": 50,
            "build-preemptible": 75,
            "build": 100,
            "inference": 125,
        }.items() <= classes.items()
        labels = get(cluster, R.NAMESPACE, "default")["metadata"]["labels"]
        assert labels[L.MANAGED_NAMESPACE] == "true"


def test_pods_of_others_are_left_alone() -> None:
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock()) as cluster:
        cluster.client.create(R.NAMESPACE, {"metadata": {"name": "theirs"}})
        foreign = pod("foreign", gpus=1)
        foreign["metadata"]["namespace"] = "theirs"
        cluster.client.create(R.POD, foreign)
        ours = pod("ours", gpus=1, run_time="1h")
        ours["spec"]["schedulerName"] = "kai-scheduler"
        ours["metadata"]["namespace"] = "theirs"
        cluster.client.create(R.POD, ours)
        cluster.run_for(10)
        assert phase(cluster, "ours", "theirs") == "Running"
        found = get(cluster, R.POD, "foreign", "theirs")
        assert "nodeName" not in found["spec"]
        assert found["status"] == {"phase": "Pending", "qosClass": found["status"]["qosClass"]}


def test_it_is_served_over_http() -> None:
    with EmbeddedCluster(ClusterConfig.short("3x8")) as cluster:
        cluster.start()
        server = cluster.serve()
        assert cluster.serve() is server
        port = KubePort(server.connection())
        assert len(port.list(R.NODE).items) == 3
        port.create(R.POD, pod("a", gpus=1, run_time="1h"))
        assert cluster.run_until(
            lambda: port.get(R.POD, "a", "default")["status"]["phase"] == "Running", 20
        )


def test_work_goes_on_after_a_stop(tmp_path: Path) -> None:
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock(), tmp_path) as cluster:
        cluster.client.create(R.JOB, job("j", annotations={L.RUN_TIME: "100s"}))
        cluster.run_for(60)
        now = cluster.clock.now()
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock(now), tmp_path) as cluster:
        cluster.run_for(35)
        assert status_condition(get(cluster, R.JOB, "j"), "Complete") == ""
        cluster.run_for(10)
        assert status_condition(get(cluster, R.JOB, "j"), "Complete") == "True"
        assert len(cluster.client.list(R.POD).items) == 1, "the same pod went on"

"""Events stand on the object that the user made, whatever operators made of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object, Resource
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "workloads"


def said(cluster: EmbeddedCluster, kind: str) -> set[str]:
    """The reasons of all events on objects of a kind."""
    events = cluster.client.list(R.EVENT, "default").items
    return {e["reason"] for e in events if e["involvedObject"]["kind"] == kind}


def create(cluster: EmbeddedCluster, resource: Resource, obj: Object, **labels: str) -> None:
    meta = {**obj["metadata"], "labels": labels}
    if resource.namespaced:
        meta["namespace"] = "default"
    cluster.client.create(resource, {**obj, "metadata": meta})


def test_a_train_job_hears_what_becomes_of_its_job_set() -> None:
    runtime, train = yaml.safe_load_all((EXAMPLES / "trainjob.yaml").read_text())
    with EmbeddedCluster(ClusterConfig.short("2x8"), VirtualClock()) as cluster:
        create(cluster, R.CLUSTER_TRAINING_RUNTIME, runtime)
        create(cluster, R.TRAIN_JOB, train)
        assert cluster.run_until(lambda: "Scheduled" in said(cluster, "TrainJob"), 30)
        assert "Scheduled" not in said(cluster, "JobSet")


def test_the_run_of_a_schedule_hears_it_not_the_schedule() -> None:
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": job("x")["spec"]}}
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock()) as cluster:
        create(cluster, R.CRON_JOB, {"metadata": {"name": "hourly"}, "spec": body})
        assert cluster.run_until(lambda: "Scheduled" in said(cluster, "Job"), 130)
        assert "Scheduled" not in said(cluster, "CronJob")

"""A PodGroup says how its workload ended, also when no pod is left to tell."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.podgrouper.outcome import outcome, told
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import job_spec


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, ""),
        ({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, ""),
        # The attempt failed; another one may follow.
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Retrying"}, ""),
        (
            {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": "loss\n is nan"},
            "Failed: loss is nan",
        ),
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, "Succeeded"),
        (
            {"conditions": [{"type": "Failed", "status": "True", "message": "exit code 3"}]},
            "Failed: exit code 3",
        ),
        ({"conditions": [{"type": "Failed", "status": "False", "message": "no"}]}, ""),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "Succeeded"),
    ],
)
def test_the_words_for_an_end(status: Object, said: str) -> None:
    assert told({"status": status}) == said
    assert said.startswith(outcome({"status": status})) or not said


@pytest.mark.parametrize(("exit_code", "phase"), [("1", "Failed"), ("0", "Finished")])
def test_the_group_of_a_ray_job_whose_cluster_is_gone(exit_code: str, phase: str) -> None:
    config = ClusterConfig.of(
        {"nodePools": [{"name": "n", "count": 1, "gpus": 8}], "managedNamespaces": ["default"]}
    )
    notes = {L.RUN_TIME: "5s", L.EXIT_CODE: exit_code}
    spec = job_spec("HTTPMode", shutdownAfterJobFinishes=True)
    with EmbeddedCluster(config, VirtualClock()) as c:
        meta = {"name": "rj", "namespace": "default", "annotations": notes}
        c.client.create(R.RAY_JOB, {"metadata": meta, "spec": spec})

        def ended() -> bool:
            groups = c.client.list(R.POD_GROUP, "default").items
            return [(g.get("status") or {}).get("phase") for g in groups] == [phase]

        assert c.run_until(ended, 300), c.client.list(R.POD_GROUP, "default").items
        (group,) = c.client.list(R.POD_GROUP, "default").items
        assert all(
            p["metadata"].get("deletionTimestamp") for p in c.client.list(R.POD, "default").items
        )
        found = {x["type"]: x for x in group["status"]["conditions"]}["Finished"]
        reason = "WorkloadFailed" if phase == "Failed" else "Finished"
        assert (found["status"], found["reason"]) == ("True", reason)

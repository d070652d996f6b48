"""`kai describe` says how GPUs are used, or why nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kai_ray.api import labels as L
from kai_ray.cli.root import root
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

RAW = {"nodePools": [{"name": "n", "count": 1, "gpus": 4}], "gpuUse": {"periodSeconds": 1}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[EmbeddedCluster, Path]]:
    with EmbeddedCluster(ClusterConfig.of(RAW)) as made:
        made.start()
        with RestServer(made.store) as server:
            file = tmp_path / "config"
            server.write_kubeconfig(file)
            yield made, file


def _kai(file: Path, *args: str) -> str:
    env = {"KAI_KUBECONFIG": str(file), "NO_COLOR": "1"}
    done = CliRunner().invoke(root, list(args), env=env)
    assert done.exit_code == 0, done.output
    return done.output


def _job(name: str) -> dict:
    container = {"name": "c", "image": "x", "resources": {"limits": {L.NVIDIA_GPU: 2}}}
    notes = {L.SIM_GPU_USE: "80%", L.RUN_TIME: "1h"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return {"metadata": meta, "spec": {"template": template}}


def test_a_job_and_its_node_tell_of_their_gpus(cluster: tuple[EmbeddedCluster, Path]) -> None:
    made, file = cluster
    made.client.create(kinds.JOB, _job("train"))
    bad = {"metadata": {"annotations": {L.SIM_BAD_GPUS: "3"}}}
    made.client.patch(kinds.NODE, "n-0", bad)
    assert made.run_until(lambda: "80% of 2 GPUs" in _kai(file, "describe", "job", "train"), 15)
    shown = _kai(file, "describe", "node", "n-0")
    used = [line.split() for line in shown.splitlines() if "GPU-n-0-" in line and "80%" in line]
    assert len(used) == 2 and used[0][-1].startswith("train-")
    assert "XID 79" in shown
    old = {"status": {"observedAt": "2020-01-01T00:00:00Z"}}
    model = next(c for c in made.controllers if c.name == "gpu-model")
    model.reconcile = lambda key: None
    made.client.patch(kinds.GPU_NODE_STATE, "n-0", old, subresource="status")
    silent = "no GPU data from node n-0 since 2020-01-01T00:00:00Z"
    assert silent in _kai(file, "describe", "node", "n-0")
    assert f"not known: {silent}" in _kai(file, "describe", "job", "train")


def test_a_queue_is_given_its_rule_and_a_bad_one_is_refused(
    cluster: tuple[EmbeddedCluster, Path],
) -> None:
    _, file = cluster
    _kai(file, "queue", "create", "team", "--gpu", "4")
    rule = "below 5% for 30m, suspend after 10m"
    _kai(file, "queue", "set", "team", "--idle-jobs", rule)
    _kai(file, "queue", "set", "team", "--protected-hours", "Mon-Fri 08:00-19:00")
    shown = _kai(file, "describe", "queue", "team")
    assert rule in shown and "Mon-Fri 08:00-19:00" in shown
    _kai(file, "queue", "set", "team", "--idle-jobs", "")
    assert rule not in _kai(file, "describe", "queue", "team")
    env = {"KAI_KUBECONFIG": str(file), "NO_COLOR": "1"}
    bad = CliRunner().invoke(root, ["queue", "set", "team", "--idle-jobs", "often"], env=env)
    assert bad.exit_code != 0 and "below 5% for 30m" in bad.output

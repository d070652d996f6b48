"""Cluster descriptions: what they make, and what is said about a wrong one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kai_ray.sim.cluster_file import RACK, ZONE, ClusterConfig, ClusterFileError
from kai_ray.sim.run_model import RunModel

FULL = """
nodePools:
- name: h100
  count: 8
  gpus: 8
  model: NVIDIA-H100-80GB-HBM3
  gpuMemory: 80Gi
  cpu: 96
  memory: 1Ti
  labels: {team: research, slot: "slot-{i}"}
  taints: [{key: gpu, effect: NoSchedule, value: "yes"}]
  topology:
  - {label: topology.kubernetes.io/zone, nodes: 8, name: "z{i}"}
  - {label: cloud.provider.com/topology-rack, nodes: 4, name: "r{i}"}
  - {label: nvidia.com/gpu.clique, nodes: 2, name: "{pool}-{i}"}
  runTime: {kind: lognormal, meanSeconds: 600, spread: 1.5}
  failures: {mtbfSeconds: 86400, repairSeconds: 900}
- name: cpu
  count: 2
  resources: {example.com/fpga: 2}
seed: 3
kubelet: {mostGraceSeconds: 5}
"""


def test_a_short_form_makes_nodes_in_racks() -> None:
    nodes = ClusterConfig.short("4x8").nodes()
    assert [n["metadata"]["name"] for n in nodes] == [f"node-{i}" for i in range(4)]
    racks = Counter(n["metadata"]["labels"][RACK] for n in nodes)
    assert racks == {"rack-0": 2, "rack-1": 2}
    assert {n["metadata"]["labels"][ZONE] for n in nodes} == {"zone-0"}
    labels = nodes[0]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.count"] == "8" and labels["nvidia.com/gpu.memory"] == "81920"
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_a_file_says_pools_labels_taints_and_domains() -> None:
    nodes = ClusterConfig.parse(FULL).nodes()
    assert len(nodes) == 10
    labels = [n["metadata"]["labels"] for n in nodes]
    assert [x.get(RACK) for x in labels] == ["r0"] * 4 + ["r1"] * 4 + [None] * 2
    assert labels[3]["nvidia.com/gpu.clique"] == "h100-1" and labels[3]["slot"] == "slot-3"
    assert nodes[0]["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule", "value": "yes"}]
    assert "nvidia.com/gpu" not in nodes[9]["status"]["capacity"]
    assert nodes[9]["status"]["capacity"]["example.com/fpga"] == "2"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[1, 2", "not YAML"),
        ("{}", "nodePools"),
        ("nodePools: []", "nodePools"),
        ("nodePools: [{name: a}]", "count"),
        ("nodePools: [{name: a, count: many}]", "nodePools[0].count"),
        ("nodePools: [{name: a, count: -1}]", "nodePools[0].count"),
        ("nodePools: [{name: A b, count: 1}]", "nodePools[0].name"),
        ("nodePools: [{name: a, count: 1}, {name: a, count: 1}]", "nodePools[1].name"),
        ("nodePools: [{name: a, count: 1, gpu: 8}]", "gpu"),
        ("nodePools: [{name: a, count: 1, memory: lots}]", "nodePools[0].memory"),
        ("nodePools: [{name: a, count: 1, cpu: -2}]", "nodePools[0].cpu"),
        ("nodePools: [{name: a, count: 1, resources: {cpu: 2}}]", "nodePools[0].resources[cpu]"),
        ("nodePools: [{name: a, count: 1, topology: [{label: z, nodes: 0}]}]", "topology[0].nodes"),
        ("nodePools: [{name: a, count: 1, runTime: {kind: weekly}}]", "runTime.kind"),
        ("nodePools: [{name: a, count: 1, runTime: {meanSeconds: .nan}}]", "runTime.meanSeconds"),
        ("nodePools: [{name: a, count: 1, taints: [{key: x, effect: Sometimes}]}]", "effect"),
        ("nodePools: [{name: a, count: 9999999}]", "nodePools"),
        ("nodePools: [{name: a, count: 1, labels: {x: '{y}'}}]", "nodePools[0].labels[x]"),
    ],
)
def test_a_wrong_file_is_refused_by_the_field(text: str, field: str) -> None:
    with pytest.raises(ClusterFileError) as error:
        ClusterConfig.parse(text, "cluster.yaml")
    assert field in str(error.value) and str(error.value).startswith("cluster.yaml")


@pytest.mark.parametrize("text", ["4", "x8", "4x", "4x8x2", "-1x8", "four"])
def test_a_wrong_short_form_says_what_to_write(text: str) -> None:
    with pytest.raises(ClusterFileError, match="4x8"):
        ClusterConfig.short(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"absent\.yaml"):
        ClusterConfig.load(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("model", "mean"),
    [
        (RunModel("constant", 60), 60),
        (RunModel("uniform", 60, 30), 60),
        (RunModel("exponential", 60), 60),
        (RunModel("lognormal", 60, 1.0), 60),
    ],
)
def test_run_times_have_the_mean_they_are_given(model: RunModel, mean: float) -> None:
    draws = [model.seconds(1, i) for i in range(20_000)]
    assert min(draws) >= 0
    assert abs(sum(draws) / len(draws) - mean) < 0.05 * mean
    assert model.seconds(1, 5) == draws[5], "a draw depends on its name, not on what came before"

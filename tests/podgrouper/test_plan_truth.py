"""What `kai plan` says is what the operators make: number of pods and their requests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.podgrouper.manifests import read_documents
from kai_ray.podgrouper.plan import plan_documents
from kai_ray.podgrouper.podspec import pod_requests, quantity_text, total_requests
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.shared import shared_dir

SAMPLES = [
    ["kuberay/ray-job.sample.yaml"],
    ["kuberay/ray-job.sidecar-mode.yaml"],
    ["kuberay/ray-job.light-weight-submitter.yaml"],
    ["kuberay/ray-cluster.autoscaler-v2.yaml"],
    ["kuberay/ray-service.sample.yaml"],
    ["training-operator/pytorch--smoke-dist--pytorch_job_sendrecv.yaml"],
    ["training-operator/pytorch--elastic--echo--echo.yaml"],
    ["training-operator/mpi--tensorflow-mnist-elastic.yaml"],
    ["training-operator/tensorflow--simple.yaml"],
    ["training-operator/paddlepaddle--simple-cpu.yaml"],
    ["kai/batch--batch-job-min-member.yaml"],
    [
        "trainer/yaml--01-multi-node.yaml",
        "trainer/manifests--base--runtimes--torch_distributed.yaml",
    ],
    ["trainer/yaml--05-multi-step.yaml"],
]


@pytest.mark.parametrize("names", SAMPLES, ids=lambda names: names[0].partition("/")[2])
def test_planned_pods_are_the_pods_made(names: list[str]) -> None:
    files = [shared_dir("manifests", *name.split("/")) for name in names]
    documents = [d for file in files for d in read_documents(file)]
    planned = [gang for plan in plan_documents(documents) for gang in plan.gangs]
    config = ClusterConfig.of(
        yaml.safe_load("nodePools: [{name: n, count: 4, gpus: 8, cpu: '200', memory: 2Ti}]")
    )
    made: dict[str, Any] = {}
    with EmbeddedCluster(config, VirtualClock()) as cluster:
        watch = cluster.store.watch(kinds.POD)
        for document in documents:
            api_version, kind = document.object["apiVersion"], document.object["kind"]
            resource = kinds.BY_KIND[api_version, kind]
            space = {"namespace": "default"} if resource.namespaced else {}
            meta = {**document.object["metadata"], **space}
            cluster.store.create(resource, {**document.object, "metadata": meta})
        cluster.run_for(200)
        while (event := watch.next()) is not None:
            made.setdefault(event.object["metadata"]["uid"], event.object)
    assert len(made) == sum(gang.pods for gang in planned)
    total = total_requests([(pod_requests(pod), 1) for pod in made.values()])
    wanted = {name: quantity_text(name, total[name]) for name in sorted(total)}
    (only,) = planned
    assert only.requests == wanted

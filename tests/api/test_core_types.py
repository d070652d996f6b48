from __future__ import annotations

import msgspec
import pytest

from kai_ray.api import core, kubeflow, ray
from tests.shared import shared_dir


def test_a_pod_reads_what_we_name_and_skips_the_rest() -> None:
    pod = msgspec.json.decode(
        b"""{"kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"managedFields":[{}]},
        "spec":{"nodeName":"n","hostNetwork":true,"unknown":{"deep":[1]},
          "containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"500m","x/y":1}},
            "ports":[{"containerPort":80,"hostPort":8080,"hostIP":"10.0.0.1"}]}],
          "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}}}},
        "status":{"phase":"Running","podIP":"10.1.1.1","hostIP":"10.0.0.1"}}""",
        type=core.Pod,
    )
    assert (pod.metadata.name, pod.spec.node_name, pod.status.pod_ip) == ("p", "n", "10.1.1.1")
    (container,) = pod.spec.containers
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "500m", "x/y": 1}
    assert container.ports is not None and container.ports[0].host_ip == "10.0.0.1"
    assert pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None
    assert pod.spec.affinity.node_affinity.required is not None


def test_absent_and_null_are_the_same() -> None:
    empty = msgspec.convert({"metadata": {"labels": None}, "spec": {"tolerations": None}}, core.Pod)
    assert empty == core.Pod()


@pytest.mark.parametrize("what", ["kuberay", "training-operator", "trainer"])
def test_upstream_manifests_fit_the_types(what: str) -> None:
    import yaml

    types = {
        "RayCluster": ray.RayCluster,
        "RayJob": ray.RayJob,
        "RayService": ray.RayService,
        "RayCronJob": ray.RayCronJob,
        "PyTorchJob": kubeflow.PyTorchJob,
        "TFJob": kubeflow.TFJob,
        "MPIJob": kubeflow.MPIJob,
        "XGBoostJob": kubeflow.XGBoostJob,
        "PaddleJob": kubeflow.PaddleJob,
        "JAXJob": kubeflow.JAXJob,
        "TrainJob": kubeflow.TrainJob,
        "ClusterTrainingRuntime": kubeflow.TrainingRuntime,
        "TrainingRuntime": kubeflow.TrainingRuntime,
    }
    seen = 0
    for path in sorted(shared_dir("manifests", what).glob("*.yaml")):
        for doc in yaml.safe_load_all(path.read_text()):
            if doc and doc.get("kind") in types:
                msgspec.convert(doc, types[doc["kind"]])
                seen += 1
    assert seen >= 5

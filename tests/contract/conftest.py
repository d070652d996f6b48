from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Port
from tests.contract.backends import BACKENDS, Backend, real
from tests.contract.objects import eventually, is_gone
from tests.real.control_plane import ControlPlane
from tests.real.fixtures import need

REAL = pytest.param("real", marks=pytest.mark.real)
#: The suite plays these itself.
PLAYED = ("deployment-controller", "replicaset-controller", "job-controller")


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real API server with its controllers; $KAI_CONTRACT_KUBECONFIG may name another."""
    if given := os.environ.get("KAI_CONTRACT_KUBECONFIG"):
        yield given
        return
    need()
    # Not the plane that other tests share: these definitions and queues are for this suite only.
    folder = tmp_path_factory.mktemp("contract") / "run"
    with ControlPlane(folder, nodes=False, left_out=PLAYED) as plane:
        yield str(plane.kubeconfig)


@pytest.fixture(scope="module", params=[*BACKENDS, REAL])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    world = BACKENDS.get(request.param)
    with world() if world else real(request.getfixturevalue("kubeconfig")) as found:
        yield found


@pytest.fixture
def port(backend: Backend) -> Port:
    return backend.port


@pytest.fixture
def ns(port: Port) -> str:
    """A namespace of the test's own."""
    name = port.create(r.NAMESPACE, {"metadata": {"generateName": "story-"}})["metadata"]["name"]
    assert eventually(lambda: not is_gone(port, r.CONFIG_MAP, "kube-root-ca.crt", name))
    return name

"""Where the script is played: in one process on virtual time, and on a real control plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from kai_ray.cluster import kube
from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import Forbidden, Port
from kai_ray.manager import Manager, rights
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.real.control_plane import ControlPlane

RACK = "topology.example/rack"
RACKS, NODES_OF_A_RACK, GPUS = 2, 2, 4
#: Virtual seconds that a step may take in the embedded cluster, real ones on the control plane.
SETTLED_S = 30.0

USER = "kai-ray-by-rights"

Picture = dict[str, Any]


class World(Protocol):
    """A cluster of RACKS x NODES_OF_A_RACK nodes with our scheduler."""

    port: Port
    namespace: str

    def settle(self, look: Callable[[], Picture], expected: Picture | None) -> Picture:
        """Lets things happen; what is seen then. `expected` may end the wait."""
        ...


class Embedded:
    """Virtual time: everything that is due within SETTLED_S has happened."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.port: Port = cluster.store
        self.namespace = "default"

    def settle(self, look: Callable[[], Picture], expected: Picture | None) -> Picture:
        self.cluster.run_for(SETTLED_S)
        return look()


class Real:
    """Real time: looks until it sees what is expected, and then once more."""

    def __init__(self, port: Port, namespace: str) -> None:
        self.port = port
        self.namespace = namespace

    def settle(self, look: Callable[[], Picture], expected: Picture | None) -> Picture:
        end = time.monotonic() + SETTLED_S
        while (seen := look()) != expected and time.monotonic() < end:
            time.sleep(0.3)
        return seen


@contextmanager
def embedded() -> Iterator[Embedded]:
    pool = {
        "name": "gpu",
        "count": RACKS * NODES_OF_A_RACK,
        "gpus": GPUS,
        "topology": [{"label": RACK, "nodes": NODES_OF_A_RACK, "name": "rack-{i}"}],
        "runTime": {"kind": "constant", "meanSeconds": 1e6},
    }
    config = msgspec.convert({"nodePools": [pool]}, ClusterConfig)
    with EmbeddedCluster(config, VirtualClock()) as cluster:
        yield Embedded(cluster)


@contextmanager
def real(
    plane: ControlPlane, namespace: str, gpu_nodes: Callable[..., list[str]]
) -> Iterator[Real]:
    """Our process there may do what `kai_ray/manager/rights.py` says, and no more."""
    for i in range(RACKS):
        gpu_nodes(NODES_OF_A_RACK, GPUS, prefix=f"rack{i}", labels={RACK: f"rack-{i}"})
    with _user(plane) as port:
        refused = _refusals(port)
        with Manager(port):
            yield Real(plane.port, namespace)
        assert not refused, refused


@contextmanager
def _user(plane: ControlPlane) -> Iterator[KubePort]:
    """Somebody with those rights."""
    rules = [*rights.cluster_rules(), *rights.named_rules()]
    subject = {"apiGroup": r.CLUSTER_ROLE.group, "kind": "User", "name": USER}
    role = {"apiGroup": r.CLUSTER_ROLE.group, "kind": "ClusterRole", "name": USER}
    about = {"metadata": {"name": USER}}
    plane.port.create(r.CLUSTER_ROLE, {**about, "rules": rules})
    binding = {**about, "subjects": [subject], "roleRef": role}
    plane.port.create(r.CLUSTER_ROLE_BINDING, binding)
    connection = kube.connect(str(plane.kubeconfig_of(USER))).connection
    port = KubePort(connection, silence_s=30.0, lean=True)
    try:
        yield port
    finally:
        port.close()
        plane.port.delete(r.CLUSTER_ROLE_BINDING, USER)
        plane.port.delete(r.CLUSTER_ROLE, USER)


def _refusals(port: KubePort) -> list[str]:
    """What the server will have forbidden."""
    found: list[str] = []
    transport: Any = port._transport
    for name in ("send", "stream"):
        call = getattr(transport, name)

        def noted(*args: Any, call: Any = call, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except Forbidden as error:
                found.append(error.message)
                raise

        setattr(transport, name, noted)
    return found

"""A control plane with every operator, our scheduler and fake GPU nodes: what a cluster has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from tests.real.control_plane import ControlPlane
from tests.real.operators import dashboard
from tests.real.operators.operators import Operators
from tests.real.operators.workloads import QUEUE

#: KubeRay serves PLAIN as it is by default and FLAGGED with --batch-scheduler=kai-scheduler.
PLAIN, FLAGGED = "ray", "ray-flag"
KUBEFLOW = "kubeflow-jobs"
NODES, GPUS = 6, 8
PROGRAMS = (
    "ray-operator",
    "training-operator.v1",
    "jobset",
    "trainer-controller-manager",
    "lws",
)
#: A job of the simulated Ray heads runs as long.
RAY_JOB_S = 1.0


@dataclass(frozen=True)
class Fleet:
    plane: ControlPlane
    operators: Operators

    def submit(self, namespace: str, *manifests: Object) -> list[Object]:
        """Creates them as kubectl would, and returns what the API server stored."""
        port = self.plane.port
        return [
            port.create(
                R.BY_KIND[m["apiVersion"], m["kind"]],
                {**m, "metadata": {"namespace": namespace, **m["metadata"]}},
            )
            for m in manifests
        ]


@contextmanager
def running(folder: Path, *, ray: Sequence[str] = (PLAIN, FLAGGED)) -> Iterator[Fleet]:
    """Everything, in a network of its own."""
    with ControlPlane(folder, isolated=True, memory="1200MiB") as plane:
        operators = Operators(plane)
        start_scheduler(plane)
        for namespace in (*ray, KUBEFLOW):
            add_namespace(plane, namespace)
        operators.kuberay("kuberay", [PLAIN])
        operators.kuberay("kuberay-flag", [FLAGGED], batch_scheduler=L.SCHEDULER_NAME)
        operators.training()
        operators.job_set()
        operators.trainer()
        operators.leader_worker_set()
        plane.run(Path(sys.executable), ["-S", dashboard.__file__, str(RAY_JOB_S)], name="ray")
        plane.gpu_nodes(NODES, GPUS)
        operators.wait()
        yield Fleet(plane, operators)


def start_scheduler(plane: ControlPlane) -> None:
    """Our own process, with its definitions, and a queue of every GPU."""
    kai = Path(sys.executable).with_name("kai")
    program = plane.run(kai, ["run", "--install-crds", "--health", ""], name="kai")
    program.wait_until(lambda: "running" in program.log.read_text())
    share = {"quota": NODES * GPUS, "limit": -1, "overQuotaWeight": 1}
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"gpu": share, "cpu": free, "memory": free}
    spec = {"parentQueue": L.DEFAULT_PARENT_QUEUE, "resources": amounts}
    plane.port.create(R.QUEUE, {"metadata": {"name": QUEUE}, "spec": spec})


def add_namespace(plane: ControlPlane, name: str) -> None:
    labels = {L.MANAGED_NAMESPACE: "true"}
    plane.port.create(R.NAMESPACE, {"metadata": {"name": name, "labels": labels}})

"""A control plane with every operator, our scheduler and fake GPU nodes: what a cluster has."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kai_ray.admission.policies import policies
from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import AlreadyExists, Forbidden, Object, Resource
from tests.real.control_plane import ControlPlane
from tests.real.operators import dashboard
from tests.real.operators.kinds import ADMISSION, FLAG, LONE, ROUTES, TEMPLATE
from tests.real.operators.operators import Operators
from tests.real.operators.seen import Seen
from tests.real.operators.workloads import QUEUE, RUN_FOR

NODES, GPUS = 24, 8
DEPARTMENT = "research"
#: A managed namespace for upstream's samples.
SAMPLES = "samples"
EVERYWHERE: Mapping[str, Sequence[str]] = {"": [""]}
#: A job of the simulated Ray heads runs as long.
RAY_JOB_S = 1.0
#: training-operator's launcher has an init container that asks for some.
DISK = {"ephemeral-storage": "500Gi"}


@dataclass(frozen=True)
class Fleet:
    """A namespace for each route, named like it: KubeRay serves FLAG's with the flag and the others
    without; only ADMISSION's is managed."""

    plane: ControlPlane
    seen: Seen

    def submit(self, namespace: str, *manifests: Object) -> list[Object]:
        """Creates them as kubectl would, and returns what the API server stored.

        An operator's webhook may not have seen yet what the manifest before has brought.
        """
        return [self._create(namespace, manifest) for manifest in manifests]

    def _create(self, namespace: str, manifest: Object, seconds: float = 20) -> Object:
        named = {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}
        end = time.monotonic() + seconds
        while True:
            try:
                return self.plane.port.create(resource_of(manifest), named)
            except Forbidden as refused:
                if "must be created before" not in refused.message or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def get(self, namespace: str, manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        return self.plane.port.get(resource_of(manifest), name, namespace)

    def wait(
        self, namespace: str, manifest: Object, done: Callable[[Object], bool], seconds: float = 60
    ) -> Object:
        """The stored object, once `done` of it or after `seconds`: the caller asserts."""
        end = time.monotonic() + seconds
        while True:
            found = self.get(namespace, manifest)
            if (found.get("status") and done(found)) or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def repeat_no_more(self, namespace: str, manifest: Object, seconds: float = 60) -> None:
        """Suspends what makes one gang after the other once it has made pods of one: each keeps
        its GPUs, and the fleet would fill up with them."""
        name = manifest["metadata"]["name"]
        assert self.seen.wait(namespace, name, bool, seconds)
        body = {"spec": {"suspend": True}}
        self.plane.port.patch(resource_of(manifest), name, body, namespace)

    @staticmethod
    def until(done: Callable[[], bool], seconds: float = 60) -> bool:
        """Whether it came to that in time."""
        end = time.monotonic() + seconds
        while not (fine := done()) and time.monotonic() < end:
            time.sleep(0.2)
        return fine

    def ended_group(self, namespace: str, workload: str, seconds: float = 60) -> Object:
        """The workload's only PodGroup, once none of its pods is left."""
        end = time.monotonic() + seconds
        while True:
            (group,) = self.pod_groups(namespace, workload)
            if group["status"]["phase"] in ("Finished", "Failed") or time.monotonic() > end:
                return group
            time.sleep(0.2)

    def end_pod(self, pod: Object) -> None:
        """Has the simulated kubelet end it."""
        meta = pod["metadata"]
        patch = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
        self.plane.port.patch(R.POD, meta["name"], patch, meta["namespace"])

    def pod_groups(self, namespace: str, workload: str) -> list[Object]:
        found = self.plane.port.list(R.POD_GROUP, namespace).items
        return [g for g in found if g["metadata"]["name"].startswith(f"pg-{workload}-")]


def resource_of(manifest: Object) -> Resource:
    return R.BY_KIND[manifest["apiVersion"], manifest["kind"]]


@contextmanager
def running(folder: Path) -> Iterator[Fleet]:
    """Everything, in a network of its own."""
    with everything(
        folder, {"": [TEMPLATE, ADMISSION, SAMPLES], L.SCHEDULER_NAME: [FLAG]}
    ) as plane:
        for route in ROUTES:
            ensure_namespace(plane, route, managed=route == ADMISSION)
        add_nodes(plane)
        seen = Seen(plane.port)
        try:
            yield Fleet(plane, seen)
        finally:
            seen.stop()


@contextmanager
def everything(
    folder: Path, kuberay: Mapping[str, Sequence[str]] = EVERYWHERE
) -> Iterator[ControlPlane]:
    """A plane with our scheduler and all operators; nodes and namespaces are the caller's.

    `kuberay`: its flag --batch-scheduler ("" for none) to the namespaces that it serves with it.
    """
    with ControlPlane(folder, isolated=True, memory="1200MiB") as plane:
        operators = Operators(plane)
        operators.define()
        start_scheduler(plane)
        for flag, namespaces in kuberay.items():
            operators.kuberay(kuberay_name(flag), namespaces, batch_scheduler=flag)
        operators.training()
        operators.job_set()
        operators.trainer()
        operators.leader_worker_set()
        plane.run(Path(sys.executable), ["-S", dashboard.__file__, str(RAY_JOB_S)], name="ray")
        operators.wait()
        yield plane


def kuberay_name(flag: str) -> str:
    """Under which name that operator runs, and logs."""
    return f"kuberay-{flag}" if flag else "kuberay"


def start_scheduler(plane: ControlPlane) -> None:
    """Our own process, our definitions and policies, and a queue of every GPU."""
    kai = Path(sys.executable).with_name("kai")
    program = plane.run(kai, ["run", "--install-crds", "--health", ""], name="kai")
    program.wait_until(lambda: "running" in program.log.read_text())
    for policy in policies():
        plane.kubectl("create", "-f", "-", stdin=policy)
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"gpu": free, "cpu": free, "memory": free}
    for name, parent in ((DEPARTMENT, {}), (QUEUE, {"parentQueue": DEPARTMENT})):
        spec = {**parent, "resources": amounts}
        plane.port.create(R.QUEUE, {"metadata": {"name": name}, "spec": spec})


def ensure_namespace(plane: ControlPlane, name: str, *, managed: bool) -> None:
    about = {"metadata": {"labels": {L.MANAGED_NAMESPACE: "true"} if managed else {}}}
    with suppress(AlreadyExists):
        plane.port.create(R.NAMESPACE, {"metadata": {"name": name, **about["metadata"]}})
        return
    plane.port.patch(R.NAMESPACE, name, about)


def add_nodes(plane: ControlPlane) -> None:
    plane.gpu_nodes(NODES, GPUS, resources=DISK)
    (lone,) = plane.gpu_nodes(1, GPUS, prefix=LONE, labels={LONE: "true"}, resources=DISK)
    taint = {"spec": {"taints": [{"key": LONE, "value": "true", "effect": "NoSchedule"}]}}
    plane.port.patch(R.NODE, lone, taint)

"""Which kinds are tried in which ways of routing their pods to us, and what each must come to.

Routes: the pod templates name our scheduler; our admission policy names it in managed namespaces;
KubeRay's flag --batch-scheduler=kai-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kai_ray.cluster.port import Object
from tests.real.operators import workloads as w
from tests.real.operators.workloads import Style

TEMPLATE, ADMISSION, FLAG = "template", "admission", "flag"
ROUTES = (TEMPLATE, ADMISSION, FLAG)
#: Only there may pods go that ask for LONE, and it holds less than a gang that asks for it needs.
LONE = "lone"
FITS, TOO_BIG = "fits", "big"


@dataclass(frozen=True)
class Kind:
    """One row of the table."""

    name: str  # of its workloads, as a prefix
    title: str
    make: Callable[[str, Style], Object | list[Object]]
    pods: int
    ray: bool = False
    #: Without these routes, and why.
    without: tuple[str, ...] = ()
    #: A new gang of so many pods comes again and again.
    repeats: bool = False

    def routes(self) -> tuple[str, ...]:
        known = ROUTES if self.ray else (TEMPLATE, ADMISSION)
        return tuple(r for r in known if r not in self.without)

    def workload(self, route: str, size: str) -> tuple[str, list[Object]]:
        """The name and the manifests of a workload that fits, or that is too big by one pod."""
        place = {} if size == FITS else lone_place()
        gpus = 1 if size == FITS else 8
        name = f"{self.name}-{size}"
        made = self.make(name, Style(ours=route == TEMPLATE, gpus=gpus, place=place))
        return name, made if isinstance(made, list) else [made]


def lone_place() -> Object:
    """Onto the lone node, which has GPUs for one of the pods and no more."""
    toleration = {"key": LONE, "operator": "Exists", "effect": "NoSchedule"}
    return {"nodeSelector": {LONE: "true"}, "tolerations": [toleration]}


def _ray_job(mode: str) -> Callable[[str, Style], Object]:
    return lambda name, style: w.ray_job(name, mode, style)


def _training(kind: str, **replicas: int) -> Callable[[str, Style], Object]:
    return lambda name, style: w.training_job(kind, name, style, replicas)


KINDS = (
    Kind("rc", "RayCluster", lambda n, s: w.ray_cluster(n, w.ray_spec(s)), 3, ray=True),
    Kind(
        "rcmulti",
        "RayCluster, multi-host",
        lambda n, s: w.ray_cluster(n, w.ray_spec(s, 2, hosts=2)),
        5,
        ray=True,
    ),
    Kind(
        "rcauto",
        "RayCluster, autoscaler",
        lambda n, s: w.ray_cluster(n, w.autoscaled(w.ray_spec(s), 2, 4)),
        3,
        ray=True,
    ),
    # KubeRay 1.6 with the flag refuses this mode; the test of that is beside this table.
    Kind("rjk8s", "RayJob, K8sJobMode", _ray_job("K8sJobMode"), 4, ray=True, without=(FLAG,)),
    Kind("rjhttp", "RayJob, HTTPMode", _ray_job("HTTPMode"), 3, ray=True),
    Kind("rjside", "RayJob, SidecarMode", _ray_job("SidecarMode"), 3, ray=True),
    Kind("rjinter", "RayJob, InteractiveMode", _ray_job("InteractiveMode"), 3, ray=True),
    Kind("rs", "RayService", lambda n, s: w.ray_service(n, s), 3, ray=True),
    Kind("rcron", "RayCronJob", lambda n, s: w.ray_cron_job(n, s), 3, ray=True, repeats=True),
    Kind("pt", "PyTorchJob", _training("PyTorchJob", Master=1, Worker=2), 3),
    Kind("ptelastic", "PyTorchJob, elastic", lambda n, s: w.elastic_job(n, s, 2, 3), 3),
    Kind("tf", "TFJob", _training("TFJob", PS=1, Worker=2), 3),
    Kind("mpi", "MPIJob", _training("MPIJob", Launcher=1, Worker=2), 3),
    Kind("xgb", "XGBoostJob", _training("XGBoostJob", Master=1, Worker=2), 3),
    Kind("paddle", "PaddleJob", _training("PaddleJob", Worker=2), 2),
    Kind("jax", "JAXJob", _training("JAXJob", Worker=2), 2),
    Kind("tj", "TrainJob", lambda n, s: w.train_job(n, s, 2), 2),
    Kind("js", "JobSet", lambda n, s: w.job_set(n, s), 5),
    Kind("lws", "LeaderWorkerSet", lambda n, s: w.leader_worker_set(n, s, 1, 3), 3),
    Kind("job", "Job", lambda n, s: w.job(n, s, 2), 2),
)


def table() -> Iterator[tuple[Kind, str]]:
    for kind in KINDS:
        for route in kind.routes():
            yield kind, route

"""A surplus worker that goes: a real Ray has begun to empty it before it is killed."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from tests.parts import ray_env
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import TEMPLATE
from tests.real.operators.seen import all_bound
from tests.real.operators.workloads import Style
from tests.real.programs import Program

pytestmark = pytest.mark.real

PLACE, NAME, GPUS = "draining", "drained", 4
GRACE_S = 8
DIARY = Path(__file__).with_name("ray_diary.py")
#: Holds every worker with an actor, so that none is idle when it is told to leave.
DRIVER = """
import ray, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address="auto", logging_level="error")
@ray.remote(num_cpus=1)
class Rank:
    def ready(self): return True
ranks = [Rank.options(scheduling_strategy=On(n["NodeID"], soft=False)).remote()
         for n in ray.nodes() if n["Alive"] and "worker" in n["Resources"]]
ray.get([r.ready.remote() for r in ranks])
print("held", len(ranks), flush=True)
time.sleep(600)
"""


@pytest.fixture
def home(ray_home: Path) -> Path:
    return ray_home


@pytest.fixture
def short() -> Iterator[Path]:
    """Ray's sockets lie there, and their paths must be short."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def place(fleet: Fleet) -> Iterator[Object]:
    names = fleet.plane.gpu_nodes(1, 2 * GPUS, prefix=PLACE, labels={PLACE: "true"})
    taint = {"spec": {"taints": [{"key": PLACE, "value": "true", "effect": "NoSchedule"}]}}
    fleet.plane.port.patch(R.NODE, names[0], taint)
    toleration = {"key": PLACE, "operator": "Exists", "effect": "NoSchedule"}
    yield {"nodeSelector": {PLACE: "true"}, "tolerations": [toleration]}
    fleet.plane.remove_nodes(names)


def test_ray_has_begun_to_empty_a_worker_before_it_is_killed(
    fleet: Fleet, home: Path, short: Path, place: Object
) -> None:
    style = Style(ours=True, gpus=GPUS, place=place)
    spec = w.autoscaled(w.ray_spec(style), 1, 2)
    cluster = w.ray_cluster(NAME, spec)
    cluster["metadata"]["annotations"] = {L.EVICTION_GRACE: f"{GRACE_S}s"}
    fleet.submit(TEMPLATE, cluster)
    fleet.seen.wait(TEMPLATE, NAME, all_bound(3))
    assert fleet.until(lambda: all(p["status"].get("podIP") for p in pods(fleet)))
    (head,) = (p for p in pods(fleet) if p["metadata"]["labels"][L.RAY_NODE_TYPE] == "head")
    cluster_up = Started(fleet, home, short, head)
    diary = cluster_up.python("diary", str(DIARY), cluster_up.gcs)
    kubelets: dict[str, Program] = {}
    for pod in workers(fleet):  # one after the other: two would look for free ports at once
        kubelets[pod["metadata"]["name"]] = cluster_up.joined(pod, diary)
    driver = cluster_up.python("driver", "-c", DRIVER)
    driver.wait_until(lambda: "held 2" in driver.log.read_text(), 60)

    better = w.job("needs-room", style, 1)
    better["metadata"]["labels"][L.PRIORITY_CLASS] = "build-preemptible"
    better["spec"]["template"]["metadata"]["annotations"].clear()
    fleet.submit(TEMPLATE, better)
    gone = killed(fleet, set(kubelets))
    kubelets[gone.name].stop()
    assert fleet.until(lambda: status_of(diary, gone.name, "DEAD") is not None, 30), diary.tail()

    drained = status_of(diary, gone.name, "DRAINING")
    assert drained is not None, [(e["reason"], e["message"]) for e in events(fleet)]
    assert drained["time"] < gone.at
    assert gone.at - drained["time"] > GRACE_S / 2, "it had its time"
    dead = status_of(diary, gone.name, "DEAD")
    assert dead is not None and dead["reason"] == "AUTOSCALER_DRAIN_PREEMPTED"
    (stays,) = set(kubelets) - {gone.name}
    assert status_of(diary, stays, "DRAINING") is None
    group = fleet.get(TEMPLATE, cluster)["spec"]["workerGroupSpecs"][0]
    assert (group["replicas"], group["scaleStrategy"]["workersToDelete"]) == (1, [gone.name])
    assert fleet.until(lambda: is_bound(fleet, "needs-room"), 30)
    assert [p["metadata"]["name"] for p in workers(fleet)] == [stays], "nobody takes its place"
    assert any(e["reason"] == "RayDraining" for e in events(fleet))
    for program in (diary, driver, kubelets[stays], cluster_up.head):
        program.stop()
    fleet.plane.port.delete(R.RAY_CLUSTER, NAME, TEMPLATE)
    fleet.plane.port.delete(R.JOB, "needs-room", TEMPLATE)


class Gone:
    def __init__(self, name: str, at: float) -> None:
        self.name, self.at = name, at


def killed(fleet: Fleet, names: set[str], seconds: float = 60) -> Gone:
    """The first of these pods that is told to end, or gone, and when that was seen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = time.time()
        there = {p["metadata"]["name"]: p for p in workers(fleet)}
        for name in names:
            pod = there.get(name)
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                return Gone(name, now)
        time.sleep(0.1)
    raise AssertionError(f"none of {names} went: {events(fleet)}")


def pods(fleet: Fleet, more: str = "") -> list[Object]:
    return fleet.plane.port.list(R.POD, TEMPLATE, labels=f"{L.RAY_CLUSTER}={NAME}{more}").items


def workers(fleet: Fleet) -> list[Object]:
    return pods(fleet, f",{L.RAY_NODE_TYPE}=worker")


def is_bound(fleet: Fleet, job: str) -> bool:
    pods = fleet.plane.port.list(R.POD, TEMPLATE, labels=f"job-name={job}").items
    return any(p["spec"].get("nodeName") for p in pods)


def events(fleet: Fleet) -> list[Object]:
    found = fleet.plane.port.list(R.EVENT, TEMPLATE).items
    return [e for e in found if NAME in e["involvedObject"]["name"]]


class Started:
    """What the kubelets of a cluster's pods would run: Ray, under their names and addresses."""

    def __init__(self, fleet: Fleet, home: Path, folder: Path, head: Object) -> None:
        self._fleet, self._home = fleet, home
        self.gcs = f"{head['status']['podIP']}:6379"
        more = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={folder}"]
        self.head = self._ray(head, *more)
        self.head.wait_until(lambda: "Ray runtime started" in self.head.log.read_text(), 90)

    def worker(self, pod: Object) -> Program:
        return self._ray(pod, f"--address={self.gcs}", '--resources={"worker": 1}')

    def joined(self, pod: Object, diary: Program) -> Program:
        """A worker that Ray knows. Its start gives up after half a minute: the machine may be
        busy, and a kubelet would start it again."""
        name = pod["metadata"]["name"]
        for _ in range(3):
            started = self.worker(pod)
            self._fleet.until(
                lambda s=started: (
                    s.process.poll() is not None or name in {line["pod"] for line in said(diary)}
                ),
                90,
            )
            if started.process.poll() is None:
                break
        assert name in {line["pod"] for line in said(diary)}, started.tail()
        return started

    def python(self, name: str, *args: str) -> Program:
        env = ray_env.environment(self._home) | {"RAY_ADDRESS": self.gcs}
        python = self._home / "bin" / "python"
        return self._fleet.plane.run(python, list(args), name=f"ray-{name}", env=env)

    def _ray(self, pod: Object, *args: str) -> Program:
        name = pod["metadata"]["name"]
        command = [
            "start",
            *args,
            f"--node-ip-address={pod['status']['podIP']}",
            "--block",
            "--num-cpus=1",
            "--object-store-memory=80000000",
            "--disable-usage-stats",
        ]
        env = ray_env.environment(self._home) | {
            "RAY_CLOUD_INSTANCE_ID": name,
            # It is killed when its time is over: by then the drain has to have come from us.
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        }
        program = self._home / "bin" / "ray"
        return self._fleet.plane.run(program, command, name=f"ray-{name}", env=env)


def said(diary: Program) -> list[dict[str, Any]]:
    lines = diary.log.read_text().splitlines() if diary.log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


def status_of(diary: Program, pod: str, status: str) -> dict[str, Any] | None:
    return next((s for s in said(diary) if (s["pod"], s["status"]) == (pod, status)), None)

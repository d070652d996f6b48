"""RayJobs that really run: KubeRay hands them to a real Ray once we have bound their gang."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from tests.real.operators import real_ray
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import ADMISSION, FLAG
from tests.real.operators.real_ray import RealRay
from tests.real.operators.seen import all_bound, node_of
from tests.real.operators.workloads import Style

pytestmark = pytest.mark.real

#: Two tasks that each hold a GPU of the cluster, and an answer that only Ray can have made.
TRAIN = (
    'python -c "import ray; ray.init();'
    " work = ray.remote(num_gpus=1)(lambda rank: (rank, ray.get_gpu_ids()));"
    " print('ranks', sorted(rank for rank, gpus in ray.get([work.remote(i) for i in range(2)])"
    ' if len(gpus) == 1))"'
)
BREAK = "python -c \"import ray; ray.init(); print('epoch 1'); raise SystemExit('loss is nan')\""


@pytest.fixture(scope="module")
def ray(fleet: Fleet, ray_home: Path) -> Iterator[RealRay]:
    with real_ray.running(fleet.plane, ray_home) as running:
        yield running


def ray_job(name: str, mode: str, entrypoint: str) -> Object:
    made = w.ray_job(name, mode, Style(), entrypoint=entrypoint)
    spec = made["spec"]
    spec["rayClusterSpec"] = w.with_dashboard(spec["rayClusterSpec"], real_ray.DASHBOARD)
    spec.pop("submitterPodTemplate", None)
    return made


def finish(fleet: Fleet, namespace: str, job: Object, seconds: float = 90) -> Object:
    """The RayJob once it has ended."""
    return fleet.wait(
        namespace,
        job,
        lambda found: found["status"].get("jobDeploymentStatus") in ("Complete", "Failed"),
        seconds,
    )


def test_a_rayjob_succeeds_through_our_scheduler(fleet: Fleet, ray: RealRay) -> None:
    job = ray_job("real-http", "HTTPMode", TRAIN)
    fleet.submit(FLAG, job)
    done = finish(fleet, FLAG, job)
    assert (done["status"]["jobStatus"], done["status"]["succeeded"]) == ("SUCCEEDED", 1)
    assert "ranks [0, 1]" in ray.job_log(done)
    pods = fleet.seen.pods(FLAG, "real-http")
    assert len(pods) == 3 and all(node_of(pod) for pod in pods)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {L.SCHEDULER_NAME}


def test_the_default_mode_succeeds_with_the_submitter_that_kuberay_makes(
    fleet: Fleet, ray: RealRay
) -> None:
    job = ray_job("real-k8s", "K8sJobMode", TRAIN)
    fleet.submit(ADMISSION, job)
    pods = fleet.seen.wait(ADMISSION, "real-k8s", all_bound(4))
    assert len(pods) == 4
    (submitter,) = [p for p in pods if L.RAY_CLUSTER not in p["metadata"]["labels"]]
    (head,) = [p for p in pods if p["metadata"]["labels"].get(L.RAY_NODE_TYPE) == "head"]
    log = ray.submitter(submitter, head["status"]["podIP"])
    assert "ranks [0, 1]" in log
    fleet.end_pod(submitter)
    done = finish(fleet, ADMISSION, job)
    assert (done["status"]["jobStatus"], done["status"]["succeeded"]) == ("SUCCEEDED", 1)


def test_a_rayjob_that_breaks_is_reported(fleet: Fleet, ray: RealRay) -> None:
    job = ray_job("real-broken", "HTTPMode", BREAK)
    # Time for its log to be read; then nothing is left but what is written down.
    job["spec"] |= {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 4}
    fleet.submit(ADMISSION, job)
    done = finish(fleet, ADMISSION, job)
    assert (done["status"]["jobStatus"], done["status"]["failed"]) == ("FAILED", 1)
    assert "loss is nan" in done["status"]["message"]
    assert "epoch 1" in ray.job_log(done)
    group = fleet.ended_group(ADMISSION, "real-broken")
    assert group["status"]["phase"] == "Failed"
    assert "loss is nan" in condition(group, "Finished")["message"]
    assert kai_status(fleet, ADMISSION, "real-broken") == "Failed"
    # Pods whose cluster is gone are on their way out: nobody has to mend them.
    about = [e for e in fleet.plane.port.list(R.EVENT, ADMISSION).items if of(e, "real-broken-")]
    assert about and not [e for e in about if e["reason"] == "OwnerNotFound"]


def of(event: Object, prefix: str) -> bool:
    return (event["involvedObject"].get("name") or "").startswith(prefix)


def condition(obj: Object, kind: str) -> Object:
    return next(c for c in obj["status"]["conditions"] if c["type"] == kind)


def kai_status(fleet: Fleet, namespace: str, name: str) -> str:
    """What `kai get jobs` says of it."""
    kai = Path(sys.executable).with_name("kai")
    command = [str(kai), "get", "jobs", "-n", namespace, "--kubeconfig"]
    done = subprocess.run(
        [*command, str(fleet.plane.kubeconfig)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    row = next(r for r in rows if r[0].endswith(name))
    return row[head.index("STATUS")]

"""A cluster killed in the middle goes on: no GPU given twice, no gang left half started."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sim import pod_facts
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.worlds import status_condition

JOBS, WORKERS, GPUS = 24, 3, 2
CONFIG = ClusterConfig.short("4x8")
#: Says "ready" once so many pods have started, then goes on until it is killed.
CHILD = """
import sys
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.test_crash import CONFIG, started, submit_missing
cluster = EmbeddedCluster(CONFIG, state_dir=sys.argv[1])
cluster.start()
submit_missing(cluster)
cluster.run_until(lambda: started(cluster) >= int(sys.argv[2]), 60)
print("ready", flush=True)
cluster.run_until(lambda: False, 60)
"""


def training_job(name: str) -> Object:
    container = {
        "name": "pytorch",
        "image": "x",
        "resources": {"limits": {"nvidia.com/gpu": str(GPUS)}},
    }
    spec = {"template": {"spec": {"containers": [container]}}, "restartPolicy": "OnFailure"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {L.RUN_TIME: "1500ms"},
        },
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **spec},
                "Worker": {"replicas": WORKERS, **spec},
            },
        },
    }


def submit_missing(cluster: EmbeddedCluster) -> None:
    known = {o["metadata"]["name"] for o in cluster.client.list(R.PYTORCH_JOB).items}
    for i in range(JOBS):
        if f"job-{i}" not in known:
            cluster.client.create(R.PYTORCH_JOB, training_job(f"job-{i}"))


def started(cluster: EmbeddedCluster) -> int:
    return sum(pod_facts.phase(p) != "Pending" for p in cluster.client.list(R.POD).items)


def alive(cluster: EmbeddedCluster) -> list[Object]:
    return [
        p
        for p in cluster.client.list(R.POD).items
        if p["spec"].get("nodeName") and not pod_facts.is_finished(p)
    ]


def check_books(cluster: EmbeddedCluster) -> None:
    """No node holds more than it has, and no device has two holders."""
    held: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    for pod in alive(cluster):
        held[pod["spec"]["nodeName"]] += pod_facts.requests(pod).get(L.NVIDIA_GPU, 0)
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            for given in status.get("allocatedResourcesStatus") or ():
                devices.update(d["resourceID"] for d in given["resources"])
    assert all(count <= 8 for count in held.values()), held
    assert all(count == 1 for count in devices.values()), devices


def half_started(cluster: EmbeddedCluster) -> list[str]:
    """Gangs of which some pods have a node and some wait."""
    by_gang: dict[str, set[bool]] = defaultdict(set)
    for pod in cluster.client.list(R.POD).items:
        if not pod_facts.is_finished(pod):
            gang = pod["metadata"]["labels"][L.TRAINING_JOB_NAME]
            by_gang[gang].add(bool(pod["spec"].get("nodeName")))
    return sorted(gang for gang, states in by_gang.items() if len(states) > 1)


def run_and_kill(state: Path, pods: int, seconds: float) -> None:
    """Runs the cluster in a process until so many pods have started, and kills that soon after."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(state), str(pods)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline().strip() == "ready"
        time.sleep(seconds)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()


def test_kills_in_the_middle_lose_nothing_and_give_nothing_twice(tmp_path: Path) -> None:
    draw = random.Random(5)
    total = JOBS * (1 + WORKERS)
    for pods in (2, total // 3, total // 2):
        run_and_kill(tmp_path, pods, draw.uniform(0, 0.3))
    with EmbeddedCluster(CONFIG, VirtualClock(time.time()), tmp_path) as cluster:
        check_books(cluster)
        assert total // 2 <= started(cluster) < total, "killed in the middle"
        names = {o["metadata"]["name"] for o in cluster.client.list(R.PYTORCH_JOB).items}
        assert len(names) == JOBS, "what was accepted is still there"

        def finished() -> bool:
            check_books(cluster)
            return all(
                status_condition(o, "Succeeded") == "True"
                for o in cluster.client.list(R.PYTORCH_JOB).items
            )

        cluster.run_for(2)
        assert not half_started(cluster)
        assert cluster.run_until(finished, 600)
        assert not cluster.kubelet.refused
        assert cluster.runtime.errors == 0

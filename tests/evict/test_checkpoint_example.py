"""The PyTorch example really runs: it saves when it is told to go, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.evict.processes import ProcessKubelet, began_at, steps
from tests.evict.world import pod_spec
from tests.parts import torch_env

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint"
EVERY = 40
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def torch() -> torch_env.Torch:
    try:
        return torch_env.build()
    except torch_env.NoTorch as error:
        pytest.skip(f"PyTorch: {error}")


def submit(cluster: EmbeddedCluster, **annotations: str) -> None:
    """The example as it is written, but for its queue and what a test adds."""
    for manifest in yaml.safe_load_all((EXAMPLE / "pytorchjob.yaml").read_text()):
        kind = R.BY_KIND.get((manifest["apiVersion"], manifest["kind"]))
        if kind is None or kind not in (R.PYTORCH_JOB, R.PVC):
            continue
        manifest["metadata"]["namespace"] = "default"
        if kind is R.PYTORCH_JOB:
            manifest["metadata"]["labels"][L.QUEUE] = "b"
            template = manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
            template["metadata"] = {"annotations": {L.RUN_TIME: "3600s"}}
            manifest["metadata"]["annotations"] |= annotations
            del template["spec"]["volumes"][0], template["spec"]["containers"][0]["volumeMounts"][0]
            cluster.store.create(kind, manifest)


def queues(cluster: EmbeddedCluster) -> None:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    for name, quota in (("a", 1), ("b", 0)):
        gpu = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
        spec = {"resources": {"gpu": gpu, "cpu": free, "memory": free}}
        cluster.store.create(R.QUEUE, {"metadata": {"name": name}, "spec": spec})


def owner(cluster: EmbeddedCluster) -> None:
    """Who owns the GPU, for a few seconds."""
    template = {"spec": pod_spec(1), "metadata": {"annotations": {L.RUN_TIME: "2s"}}}
    meta = {"name": "owner", "namespace": "default", "labels": {L.QUEUE: "a"}}
    cluster.store.create(R.JOB, {"metadata": meta, "spec": {"template": template}})


@pytest.mark.parametrize(
    ("told", "notes"),
    [
        ("notice", {}),
        ("signal", {L.EVICTION_SIGNAL: "SIGTERM", L.EVICTION_GRACE: "20s"}),
        ("killed", {L.EVICTION_GRACE: "0s"}),
    ],
)
def test_it_goes_on_where_it_was(
    torch: torch_env.Torch, tmp_path: Path, told: str, notes: dict[str, str]
) -> None:
    env = torch.env | {
        "CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "CHECKPOINT_EVERY": str(EVERY),
        "STEP_SECONDS": "0.01",
    }
    if told == "signal":
        env["NOTICE_FILE"] = str(tmp_path / "not-mounted")
    command = [str(torch.python), str(EXAMPLE / "train.py")]
    with EmbeddedCluster(ClusterConfig.short("1x1")) as cluster:
        queues(cluster)
        cluster.start()
        with ProcessKubelet(cluster, "train-", command, env, tmp_path / "pods") as kubelet:
            if told == "killed":
                kubelet.ends_with = signal.SIGKILL
            submit(cluster, **notes)
            assert wait(cluster, lambda: bool(kubelet.ran) and len(steps(kubelet.ran[0])) > 50)
            owner(cluster)
            assert wait(cluster, lambda: len(kubelet.ran) == 2, 60), [
                one.log.read_text()[-500:] for one in kubelet.ran
            ]
            first, second = kubelet.ran
            done, begins = max(steps(first)), began_at(second)
            assert begins > 0
            assert done - begins <= (EVERY if told == "killed" else 0), first.log.read_text()
            assert wait(cluster, lambda: len(steps(second)) > 5)
            assert min(steps(second)) == begins + 1
            assert ("acknowledged" in first.log.read_text()) is (told == "notice")
            group = _group(cluster)
            saved = L.CHECKPOINT_TIME in (group["metadata"].get("annotations") or {})
            assert saved is (told == "notice")


def wait(cluster: EmbeddedCluster, done: Callable[[], Any], seconds: float = 40) -> bool:
    return cluster.run_until(lambda: bool(done()), seconds)


def _group(cluster: EmbeddedCluster) -> Object:
    groups = cluster.store.list(R.POD_GROUP, "default").items
    return next(g for g in groups if "train" in g["metadata"]["name"])

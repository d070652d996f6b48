"""`kai demo` from submission to summary, on its own cluster with shorter run times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kai_ray.cli import examples
from tests.shared import shared_dir

from .conftest import EXAMPLES

pytestmark = pytest.mark.slow


def run(tmp_path: Path, *args: str, shared: bool = False) -> subprocess.CompletedProcess[str]:
    """`shared`: take upstream samples from where tests find them."""
    file = tmp_path / "cluster.yaml"
    text = (EXAMPLES / "cluster.yaml").read_text()
    file.write_text(text.replace("meanSeconds: 6", "meanSeconds: 4").replace("spread: 2", ""))
    command = [sys.executable, "-c", "from kai_ray.cli import main; main()", "demo"]
    env = {**os.environ, "KAI_SHARED": str(shared_dir() if shared else tmp_path / "none")}
    return subprocess.run(
        [*command, "--cluster", str(file), *args],
        env=env | {"KAI_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The demonstration as it is, told to a pipe."""
    place = tmp_path_factory.mktemp("demo")
    begin = time.monotonic()
    done = run(place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - begin < 90, "60 s on a machine with nothing else to do"
    assert not (place / "up.json").exists()
    return done


def test_the_demonstration_ends_well_and_shows_who_waited(
    done: subprocess.CompletedProcess[str],
) -> None:
    summary = done.stdout.partition("Summary")[2]
    for workload, queue in (
        ("RayJob tune", "language"),
        ("RayCluster notebook", "vision"),
        ("RayService embed", "search"),
        ("PyTorchJob resnet", "vision"),
        ("MPIJob allreduce", "ads"),
        ("TrainJob finetune", "language"),
        ("Job evaluate", "ads"),
    ):
        assert re.search(rf"{workload} +{queue} ", summary), workload
    assert re.search(r"waited \d+\.\d s for a gang of \d+ pods, \d+ GPUs:\n +Waiting for", summary)
    waits = re.findall(r"in queue (\w+): .*\((\w+)\)$", done.stdout, re.MULTILINE)
    assert waits
    assert "upstream" not in done.stdout


def test_the_demonstration_shows_every_rule(done: subprocess.CompletedProcess[str]) -> None:
    table = done.stdout.partition("Evicted, and back")[2].partition("Kept together")[0]
    for who, rule, for_whom in (
        ("PyTorchJob segment", "Reclaimed", "Job index of queue search"),
        ("PyTorchJob pretrain", "Preempted", "Job hotfix of the same queue"),
        (r"Job probe-\d", "Consolidated", "Job merge finds room"),
    ):
        assert re.search(rf"{who} +\w+ +{rule} +\d+\.\ds +.*{for_whom}", table), (who, table)
    assert "Pod notebook-a and Pod notebook-b share one GPU" in done.stdout
    assert re.search(r"PyTorchJob allgather requires one rack: .* both in rack-\d", done.stdout)


def test_upstream_samples_run_beside_the_examples(tmp_path: Path) -> None:
    done = run(tmp_path, shared=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 upstream samples, unchanged" in done.stdout
    for workload in ("RayJob rayjob-sample", "RayCluster raycluster-kuberay", "MPIJob tensorflow"):
        assert workload in done.stdout.partition("Summary")[2]


def test_a_folder_of_other_manifests_takes_part(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (EXAMPLES / "workloads" / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text.replace("name: evaluate", "name: mine"))
    done = run(tmp_path, "--manifests", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 upstream samples" in done.stdout
    assert re.search(r"Job mine +ads .*Succeeded", done.stdout)


def test_a_workload_that_cannot_start_makes_it_fail(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (EXAMPLES / "workloads" / "job.yaml").read_text()
    text = text.replace("name: evaluate", "name: huge").replace('gpu: "1"', 'gpu: "9"')
    (folder / "job.yaml").write_text(text)
    done = run(tmp_path, "--manifests", str(folder), "--timeout", "12")
    assert done.returncode == 1
    assert "Job huge (Waiting)" in done.stderr


def test_the_samples_are_one_of_each_kind(tmp_path: Path) -> None:
    for name in examples.SAMPLES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert len(examples.samples(str(tmp_path))) == len(examples.SAMPLES)

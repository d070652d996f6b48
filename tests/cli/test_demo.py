"""`kai demo` from submission to summary, on its own cluster with shorter run times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
    file.write_text(text.replace("meanSeconds: 9", "meanSeconds: 4").replace("spread: 2", ""))
    command = [sys.executable, "-c", "from kai_ray.cli import main; main()", "demo"]
    env = {**os.environ, "KAI_SHARED": str(shared_dir() if shared else tmp_path / "none")}
    return subprocess.run(
        [*command, "--cluster", str(file), *args],
        env=env | {"KAI_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_demonstration_ends_well_and_shows_who_waited(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
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
    assert not (tmp_path / "up.json").exists()


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

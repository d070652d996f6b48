"""The examples for Python run as they stand, against a cluster behind its REST face."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_ray.podgrouper.manifests import read_documents
from tests.parts import python_env, ray_env
from tests.parts.python_env import PythonEnv

from .conftest import EXAMPLES
from .served import Served, served

SDK = EXAMPLES / "sdk"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("sdk")) as made:
        yield made


def home_of(env: PythonEnv) -> Path:
    home = env.find()
    if home is None:
        words = f"{env.words} is not installed beside the tests: make parts"
        pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)
    return home


def test_a_pipeline_with_only_kai_ray(world: Served) -> None:
    said = world.run(str(SDK / "pipeline.py"))
    assert "train: Running" in said
    assert "train: Succeeded" in said
    assert sorted(line for line in said.splitlines() if line.startswith("evaluate")) == [
        f"evaluate-{seed}: Succeeded" for seed in range(3)
    ]
    assert world.kai.jobs(queue="vision", status="Succeeded") == []


def test_the_python_of_the_readme(world: Served) -> None:
    text = (EXAMPLES.parent / "README.md").read_text()
    block = text[text.index("    import kai_ray\n") :].split("\n\n**")[0]
    said = world.run("-c", textwrap.dedent(block))
    assert "RayJob sweep" in said


def test_a_kubeflow_pipeline_compiles_and_its_step_runs_the_job(
    world: Served, tmp_path: Path
) -> None:
    home = home_of(python_env.KFP)
    program = str(SDK / "kfp_pipeline.py")
    compiled = tmp_path / "pipeline.yaml"
    world.run(program, "compile", str(compiled), home=home, cwd=tmp_path)
    spec = compiled.read_text()
    (first, *_) = read_documents(compiled)
    steps = first.object["root"]["dag"]["tasks"]
    assert set(steps) == {"run-job", "report"}
    assert "kai-ray" in spec, "the step installs kai-ray where it runs"
    said = world.run(program, "local", home=home, cwd=tmp_path)
    assert said.rstrip().endswith("kfp-train has Succeeded")
    job = world.kai.job("kfp-train")
    assert job.queue == "vision"
    assert type(job.manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"]) is int


def test_kubeflows_trainer_client_takes_our_options(world: Served) -> None:
    home = home_of(python_env.KUBEFLOW)
    runtime, *_ = read_documents(EXAMPLES / "workloads" / "trainjob.yaml")
    world.kai.submit_all(runtime.object)
    said = world.run(str(SDK / "kubeflow_trainer.py"), home=home)
    assert "theirs: Succeeded in vision" in said
    assert "ours: Succeeded in vision" in said


def test_the_training_operators_client_and_its_objects_are_taken(world: Served) -> None:
    home = home_of(python_env.KUBEFLOW_TRAINING)
    said = world.run(str(SDK / "kubeflow_training.py"), home=home)
    assert "theirs: Succeeded in queue vision" in said
    assert "ours: Succeeded in queue vision" in said


@pytest.mark.slow
def test_rays_job_client_carries_our_labels(tmp_path: Path) -> None:
    """A real Ray with its dashboard, and the example against it."""
    home = home_of(python_env.RAY)
    env = ray_env.environment(home) | {"HOME": str(tmp_path), "PYTHONPATH": str(EXAMPLES.parent)}
    program = (
        "import ray, runpy, sys\n"
        "context = ray.init(num_cpus=2, dashboard_port=0, include_dashboard=True,\n"
        "    object_store_memory=80 * 2**20, log_to_driver=False)\n"
        "sys.argv = [sys.argv[1], 'http://' + context.dashboard_url]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run(
        [str(home / "bin" / "python"), "-c", program, str(EXAMPLES / "sdk" / "ray_job_client.py")],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "SUCCEEDED {'kai.scheduler/queue': 'vision', 'user': 'ada'}" in done.stdout

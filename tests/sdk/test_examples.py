"""The examples for Python run as they stand, against a cluster behind its REST face."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_ray.podgrouper.manifests import read_documents
from tests.parts import python_env
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
    assert world.kai.job("kfp-train").queue == "vision"


def test_kubeflows_trainer_client_takes_our_options(world: Served) -> None:
    home = home_of(python_env.KUBEFLOW)
    runtime, *_ = read_documents(EXAMPLES / "workloads" / "trainjob.yaml")
    world.kai.submit_all(runtime.object)
    said = world.run(str(SDK / "kubeflow_trainer.py"), home=home)
    assert said.rstrip().endswith("TrainJob: Succeeded")


def test_the_training_operators_client_and_its_objects_are_taken(world: Served) -> None:
    home = home_of(python_env.KUBEFLOW_TRAINING)
    said = world.run(str(SDK / "kubeflow_training.py"), home=home)
    assert "theirs: Succeeded in queue vision" in said
    assert "ours: Succeeded in queue vision" in said

"""The script inside the RayJob example is a true one: the real Ray runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.parts import ray_env

from .conftest import EXAMPLES

#: Runs a script as on the example's cluster: eight GPUs, by Ray's own books.
LAUNCH = """
import ray, runpy, sys
start = ray.init
ray.init = lambda: start(
    num_cpus=2, num_gpus=8, include_dashboard=False, object_store_memory=80 * 2**20
)
runpy.run_path(sys.argv[1], run_name="__main__")
ray.shutdown()
"""


@pytest.mark.slow
def test_ray_runs_the_script_of_the_rayjob(tmp_path: Path) -> None:
    home = ray_env.find()
    if home is None:
        words = "the environment of a real Ray is absent: run `make parts`"
        pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)
    documents = list(yaml.safe_load_all((EXAMPLES / "workloads" / "rayjob.yaml").read_text()))
    (files,) = (d["data"] for d in documents if d["kind"] == "ConfigMap")
    (job,) = (d for d in documents if d["kind"] == "RayJob")
    name = job["spec"]["entrypoint"].rpartition("/")[2]
    (tmp_path / name).write_text(files[name])
    done = subprocess.run(
        [str(home / "bin" / "python"), "-c", LAUNCH, str(tmp_path / name)],
        env=ray_env.environment(home) | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "best loss 0.0" in done.stdout

"""The script inside the RayJob example is a true one: the real Ray runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    documents = list(yaml.safe_load_all((EXAMPLES / "workloads" / "rayjob.yaml").read_text()))
    (files,) = (d["data"] for d in documents if d["kind"] == "ConfigMap")
    (job,) = (d for d in documents if d["kind"] == "RayJob")
    name = job["spec"]["entrypoint"].rpartition("/")[2]
    (tmp_path / name).write_text(files[name])
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(tmp_path / name)],
        env=env | {"HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "best loss 0.0" in done.stdout

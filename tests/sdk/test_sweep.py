"""Sweeps: trials share one place in the queue, start as they fit, and are the first to shrink."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kai_ray
from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.sdk.client import Client
from kai_ray.sight.jobs import pods as P
from tests.parts import python_env, ray_env

from .conftest import EXAMPLES
from .test_examples import home_of

SWEEP = EXAMPLES / "sweep"


def until(kai: Client, true: Any, timeout_s: float = 600) -> None:
    end = kai.pace.now() + timeout_s
    while not true():
        assert kai.pace.now() < end
        kai.pace.sleep(1)


def lasting(job: kai_ray.BatchJob, run_time: str = "5m") -> dict[str, Any]:
    manifest = job.manifest()
    notes = manifest["metadata"].setdefault("annotations", {})
    notes["kai.scheduler/sim-run-time"] = run_time
    return manifest


def workers(kai: Client, kind: str) -> int:
    """Pods of the sweep that run trials; the head and KubeRay's submitter run none."""
    label = f"{L.RAY_NODE_TYPE}=worker" if kind == "tune" else "batch.kubernetes.io/job-name=trials"
    return sum(P.running(pod) for pod in kai.port.list(R.POD, "default", labels=label).items)


@pytest.mark.parametrize("kind", ["tune", "optuna"])
def test_a_sweep_takes_what_is_free_and_gives_it_back_first(kai: Client, kind: str) -> None:
    """31 of 32 GPUs are in use; 8 come free; then somebody else wants 4 of them."""
    filler = kai_ray.BatchJob("filler", image="busybox", gpus=8, pods=3)
    kai.submit(lasting(filler, "40m"), queue="search").wait(until="started")
    held = lasting(kai_ray.BatchJob("held", image="busybox", gpus=7), "1m")
    kai.submit(held, queue="language").wait(until="started")

    program = runpy.run_path(str(SWEEP / f"submit_{kind}.py"))
    what = program["sweep"]() if kind == "tune" else program["trials"]("claim")
    if kind == "tune":
        what[1]["metadata"].setdefault("annotations", {})["kai.scheduler/sim-run-time"] = "30m"
    else:
        del what["spec"]["template"]["spec"]["volumes"]
        del what["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        what["metadata"]["annotations"] = {"kai.scheduler/sim-run-time": "30m"}
    job = kai.submit(what, queue="vision", min_workers=1, max_workers=8)
    job.wait(timeout=30, until="started")
    assert workers(kai, kind) == 1, "one worker is enough to start"
    assert len(kai.jobs(queue="vision")) == 1, "one place in the queue for all trials"

    until(kai, lambda: workers(kai, kind) == 8)
    other = lasting(kai_ray.BatchJob("other", image="busybox", gpus=4))
    kai.submit(other, queue="ads").wait(timeout=60, until="started")
    assert 1 <= workers(kai, kind) <= 4
    assert job.status == "Running"
    told = {event.reason for event in job.events()}
    assert not told & {"Evicted", "Reclaimed", "Preempted"}, "it was lowered, not evicted"


@pytest.mark.slow
def test_the_tune_sweep_really_runs_and_loses_a_worker_but_no_trial(tmp_path: Path) -> None:
    home = home_of(python_env.RAY)
    env = ray_env.environment(home) | {"HOME": str(tmp_path), "SWEEP_STORAGE": str(tmp_path)}
    program = str(Path(__file__).with_name("shrinking_sweep.py"))
    done = subprocess.run(
        [str(home / "bin" / "python"), program, str(SWEEP / "tune_sweep.py"), "5"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "one worker has gone" in done.stdout
    assert "5 trials, 0 lost" in done.stdout
    assert "GPUs at the end: 1.0" in done.stdout
    assert re.search(r"best loss \d+\.\d+ with", done.stdout)


def test_the_trials_of_optuna_share_a_study(tmp_path: Path) -> None:
    home = home_of(python_env.RAY)
    trial = [str(home / "bin" / "python"), str(SWEEP / "optuna_trial.py"), "journal.log", "3"]
    env = python_env.environment(home)
    pods = [
        subprocess.Popen(trial, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [pod.communicate(timeout=60)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0]
    assert any(text.startswith("9 trials, best") for text in said), said

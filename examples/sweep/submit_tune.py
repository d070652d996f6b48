"""Submits the sweep of tune_sweep.py as one RayJob with one place in the queue.

    python examples/sweep/submit_tune.py

It starts as soon as one worker fits, takes up to eight while GPUs are free, and gives them back
before anybody has to be evicted for others.
"""

from pathlib import Path

import kai_ray

HERE = Path(__file__).resolve().parent
#: Of a real cluster: an image with ray[tune] and optuna.
IMAGE = "rayproject/ray:2.60.0-gpu"
STORAGE = "s3://sweeps"


def sweep(name: str = "sweep") -> list[dict]:
    """The script in a ConfigMap, and the RayJob that runs it."""
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-script"},
        "data": {"tune_sweep.py": (HERE / "tune_sweep.py").read_text()},
    }
    job = kai_ray.RayJob(
        name,
        "python /home/ray/sweep/tune_sweep.py 64",
        image=IMAGE,
        workers=1,
        gpus=1,
        cpus=4,
        runtime_env={"pip": ["optuna==5.0.0"], "env_vars": {"SWEEP_STORAGE": STORAGE}},
    ).manifest()
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    head["volumes"] = [{"name": "script", "configMap": {"name": f"{name}-script"}}]
    head["containers"][0]["volumeMounts"] = [{"name": "script", "mountPath": "/home/ray/sweep"}]
    return [script, job]


def main() -> None:
    with kai_ray.connect() as kai:
        job = kai.submit(sweep(), queue="vision", min_workers=1, max_workers=8)
        for change in job.changes():
            running, wanted = job.pods
            print(f"{change.status} {change.reason} {running} of {wanted} pods run")


if __name__ == "__main__":
    main()

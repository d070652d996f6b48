"""Submits the trials of optuna_trial.py as one Job with one place in the queue.

    python examples/sweep/submit_optuna.py CLAIM

CLAIM is a PersistentVolumeClaim that several pods may write: the study lives there. One pod is
enough to start; up to eight run while GPUs are free, and those are the first to go.
"""

import sys

import kai_ray

#: Of a real cluster: an image with optuna and optuna_trial.py.
IMAGE = "registry.example.org/sweep:1"


def trials(claim: str, completions: int = 32) -> dict:
    job = kai_ray.BatchJob(
        "trials",
        image=IMAGE,
        command="python optuna_trial.py /study/journal.log",
        gpus=1,
        completions=completions,
        retries=10,
    ).manifest()
    pod = job["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "study", "persistentVolumeClaim": {"claimName": claim}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "study", "mountPath": "/study"}]
    return job


def main() -> None:
    with kai_ray.connect() as kai:
        job = kai.submit(trials(sys.argv[1]), queue="vision", min_workers=1, max_workers=8)
        print(job.wait().status)


if __name__ == "__main__":
    main()

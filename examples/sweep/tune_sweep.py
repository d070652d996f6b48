"""The sweep: Optuna proposes, Ray Tune runs one trial on each worker that is there.

    python tune_sweep.py [TRIALS]

Workers come when GPUs are free and go when others need them; a trial that loses its worker goes on
from its last checkpoint on the next one, which `$SWEEP_STORAGE` has to be readable from (a shared
folder, or s3://...). Without GPUs it runs on CPUs.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

STEPS = 5
STEP_S = 0.3


def train(config: dict) -> None:
    """A stand-in for training: its loss falls with every step, best with a rate near 0.01."""
    first, loss = 0, 10.0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            first, loss = json.loads(Path(folder, "state.json").read_text())
    for step in range(first, STEPS):
        time.sleep(STEP_S)
        loss = 0.5 * loss + abs(config["rate"] - 0.01) * config["batch"] ** 0.5
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps([step + 1, loss]))
            tune.report({"loss": loss}, checkpoint=tune.Checkpoint.from_directory(folder))


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    ray.init(ignore_reinit_error=True)
    gpus = ray.cluster_resources().get("GPU", 0)
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1, "gpu": 1} if gpus else {"cpu": 1}),
        param_space={
            "rate": tune.loguniform(1e-4, 1e-1),
            "batch": tune.choice([16, 64, 256]),
        },
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=trials,
            search_alg=OptunaSearch(seed=7),
        ),
        run_config=tune.RunConfig(
            storage_path=os.environ.get("SWEEP_STORAGE"),
            failure_config=tune.FailureConfig(max_failures=-1),
            verbose=0,
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    print(f"{len(results)} trials, {results.num_errors} lost")
    print(f"best loss {best.metrics['loss']:.3f} with {json.dumps(best.config)}")


if __name__ == "__main__":
    main()

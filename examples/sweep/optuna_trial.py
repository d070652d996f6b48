"""One trial of a sweep with Optuna alone: the pods of a Job share a study in a file.

    python optuna_trial.py JOURNAL [TRIALS]

Every pod asks the study for parameters, tries them, and writes what came out. A pod that has to go
leaves a trial that is not finished; the Job makes another pod, and nothing else is lost.
"""

import sys
import time

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend


def objective(trial: optuna.Trial) -> float:
    """A stand-in for training: the closer to rate 0.01, the better."""
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    batch = trial.suggest_categorical("batch", [16, 64, 256])
    time.sleep(0.1)
    return abs(rate - 0.01) * batch**0.5


def main() -> None:
    journal, trials = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(journal)),
        direction="minimize",
        load_if_exists=True,
    )
    study.optimize(objective, n_trials=trials)
    done = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    print(f"{len(done)} trials, best {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()

"""The same cluster gives the same Plan, whatever the order of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.shared import shared_dir

_ROOT = Path(__file__).resolve().parents[2]


def _digest(seed: int, *module: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *(module or ("tests.core.plan_digest",))],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_twenty_hash_seeds_give_one_plan() -> None:
    with ThreadPoolExecutor(2) as pool:
        digests = set(pool.map(_digest, range(1, 21)))
    assert len(digests) == 1


def test_recorded_cases_give_the_same_plans_under_any_hash_seed() -> None:
    folder = str(shared_dir("scenarios"))
    said = {_digest(seed, "tests.conformance.plan_digest", folder) for seed in (1, 2, 3)}
    assert len(said) == 1
    made, _, _ = said.pop().partition(" ")
    assert int(made) > 200, "the recorded cases must have been run"

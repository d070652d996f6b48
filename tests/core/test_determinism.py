"""The same cluster gives the same Plan, whatever the order of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def _digest(seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.plan_digest"],
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

"""`python -m tests.invariants [--seeds N] [--first S]`: random clusters, a checker per invariant.

Prints what went wrong and the command that shows it again. Exit 1 if anything did.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.invariants.checks import all_checks
from tests.invariants.clusters import setup
from tests.invariants.run import run


def violations(seed: int) -> list[str]:
    """What a seed's run breaks."""
    return run(setup(seed), all_checks())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.invariants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=20, help="failing seeds that are shown")
    options = parser.parse_args(arguments)
    began, failed = time.process_time(), 0
    for seed in range(options.first, options.first + options.seeds):
        found = violations(seed)
        if found:
            failed += 1
            if failed <= options.most:
                print(f"python -m tests.invariants --seeds 1 --first {seed}")
                for line in found[:5]:
                    print(f"    {line}", flush=True)
    seconds = time.process_time() - began
    print(f"{options.seeds} seeds, {failed} with violations, {seconds:.0f} CPU s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

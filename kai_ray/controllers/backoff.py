"""How long to wait after the n-th failure."""

from __future__ import annotations

FIRST_S = 0.2
LAST_S = 60.0
QUARANTINE_AFTER = 6


def wait_s(failures: int) -> float:
    """0.2 s doubled each time; from the sixth failure on, one try a minute."""
    if failures >= QUARANTINE_AFTER:
        return LAST_S
    return FIRST_S * 2 ** max(0, failures - 1)

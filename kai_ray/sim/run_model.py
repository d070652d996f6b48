"""How long simulated work runs and how often simulated nodes fail: seeded, independent of order."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["constant", "uniform", "exponential", "lognormal"]


def unit_draw(seed: int, *parts: object) -> float:
    """A number in (0, 1) that depends only on the seed and on `parts`, not on what came before."""
    text = "/".join(map(str, (seed, *parts)))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


@dataclass(frozen=True, slots=True)
class RunModel:
    """A distribution of seconds. `spread`: half-width for uniform, sigma for lognormal."""

    kind: Kind = "constant"
    mean_s: float = 60.0
    spread: float = 0.0

    def seconds(self, seed: int, *parts: object) -> float:
        if self.kind == "constant":
            return self.mean_s
        u = unit_draw(seed, *parts)
        if self.kind == "uniform":
            return max(0.0, self.mean_s + (2 * u - 1) * self.spread)
        if self.kind == "exponential":
            return -math.log(u) * self.mean_s
        # Box-Muller with a second draw; the median is mean / exp(sigma^2 / 2).
        v = unit_draw(seed, "second", *parts)
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        return self.mean_s * math.exp(self.spread * normal - self.spread**2 / 2)


@dataclass(frozen=True, slots=True)
class FailureModel:
    """Exponential time between failures of one node (0: never) and the time until it is back."""

    mtbf_s: float = 0.0
    repair_s: float = 300.0

    def next_failure_s(self, seed: int, node: str, count: int) -> float | None:
        if self.mtbf_s <= 0:
            return None
        return -math.log(unit_draw(seed, "failure", node, count)) * self.mtbf_s

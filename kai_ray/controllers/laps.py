"""How long each part of a run took, as its runner passes them."""

from __future__ import annotations

from kai_ray.cluster.clock import steady_s


class Laps:
    """`begin`, then a call with the name of each part when it is over. Equal names add up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last_s = steady_s()

    def begin(self) -> None:
        """What has passed since the last call is nobody's."""
        self._last_s = steady_s()

    def __call__(self, name: str) -> None:
        now_s = steady_s()
        self.seconds[name] = self.seconds.get(name, 0.0) + now_s - self._last_s
        self._last_s = now_s

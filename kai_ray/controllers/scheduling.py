"""The scheduling loop: look, decide, act; nothing changed means nothing done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.binder import Binder
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle, carried_out, only, unfinished
from kai_ray.encode import RESOURCES, Encoded, Encoder
from kai_ray.scheduler import DEFAULT, Plan, Policy, Snapshot, decide

_NEEDED = (kinds.NODE, kinds.POD, kinds.QUEUE, kinds.POD_GROUP)
_LOOK_AGAIN_S = 1.0
#: Kinds that may be hidden from us: what cannot be seen is not held against a pod.
_OPTIONAL = (kinds.PVC, kinds.CONFIG_MAP)


class SchedulingLoop:
    """Controller with the one key "cycle"."""

    name = "scheduler"

    def __init__(
        self,
        config: ControlConfig,
        encoder: Encoder,
        binder: Binder,
        observers: Sequence[Callable[[Cycle], None]] = (),
        policy: Policy = DEFAULT,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._binder = binder
        self._observers = observers
        self._policy = policy
        self._seen: tuple[int, ...] | None = None
        self._next_s = 0.0
        self._stuck_s = float("inf")
        self.last: Cycle | None = None
        self.cycles = 0

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        for resource in RESOURCES:
            runtime.informer(resource).on_change(partial(self._changed, resource))

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        self._encoder.apply(resource, old, new)
        self.kick()

    def kick(self) -> None:
        """Asks for a cycle as soon as the period allows."""
        now = self._runtime.clock.now()
        self._runtime.enqueue(self.name, "cycle", max(0.0, self._next_s - now))

    def reconcile(self, key: str) -> float | None:
        now = self._runtime.clock.now()
        if now < self._next_s:
            return self._next_s - now
        if not self._fresh():
            return _LOOK_AGAIN_S
        for resource in _OPTIONAL:
            connected = self._runtime.informer(resource).connected
            self._encoder.trust(resource, connected)
        version = self._encoder.version
        if version == self._seen and now <= self._stuck_s:
            return None
        self._next_s = now + self._config.period_s
        self._complete(now)
        encoded = self._encoder.snapshot(now)
        self._act(encoded, self._decide(encoded.snapshot))
        self._seen = version  # not before: what fails half-way is to be done again
        self._stuck_s = self._encoder.next_stuck_s(now)
        return self._stuck_s - now + 0.001 if self._stuck_s != float("inf") else None

    def _fresh(self) -> bool:
        """Old news is no ground for a decision: every watch that matters must be open."""
        return all(self._runtime.informer(resource).connected for resource in _NEEDED)

    def _complete(self, now: float) -> None:
        """What was cut short comes first: a gang that holds some of its minimum."""
        encoded = self._encoder.snapshot(now)
        halves = unfinished(encoded.snapshot)
        if halves.any():
            self._binder.bind(encoded, self._decide(only(encoded.snapshot, halves)))

    def _decide(self, snapshot: Snapshot) -> Plan:
        return decide(snapshot, self._policy)

    def _act(self, encoded: Encoded, plan: Plan) -> None:
        self._binder.bind(encoded, plan)
        self.last = cycle = carried_out(self.cycles, encoded, plan, self._binder.failing())
        self.cycles += 1
        for observe in self._observers:
            observe(cycle)

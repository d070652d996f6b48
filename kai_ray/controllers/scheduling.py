"""The scheduling loop: look, decide, act; nothing changed means nothing done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import steady_s
from kai_ray.cluster.port import Key, Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.served import device_kinds, serves
from kai_ray.controllers.binder import Binder
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle, carried_out
from kai_ray.controllers.elastic.actor import Elasticity
from kai_ray.controllers.evictor import Evictor
from kai_ray.controllers.isolation import decide_without_offenders
from kai_ray.controllers.laps import Laps
from kai_ray.controllers.moments import next_moment
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.controllers.victim_choice import choose
from kai_ray.encode import ADDED_RESOURCES, RESOURCES, Encoded, Encoder, Problem
from kai_ray.scheduler import DEFAULT, Plan, Policy, Snapshot, decide

_NEEDED = (kinds.NODE, kinds.POD, kinds.QUEUE, kinds.POD_GROUP)
_LOOK_AGAIN_S = 1.0
#: Kinds that may be hidden from us: what cannot be seen is not held against a pod.
_OPTIONAL = (kinds.PVC, kinds.CONFIG_MAP)
#: A gang that the core stumbled over is tried again after this long, then after twice as long.
_ISOLATED_FIRST_S, _ISOLATED_LAST_S = 60.0, 3600.0
_RETRY = "retry "
_NO_DEVICES = (
    "it claims devices, and this cluster does not serve resource.k8s.io: "
    "ask for them in resources.limits"
)
_UNSEEN_DEVICES = (
    "its resource claims cannot be read now: let the scheduler list and watch resource.k8s.io"
)


class SchedulingLoop:
    """Keys: "cycle"; "again" for a cycle though nothing moved; "retry namespace/gang"."""

    name = "scheduler"

    def __init__(
        self,
        config: ControlConfig,
        encoder: Encoder,
        binder: Binder,
        evictor: Evictor,
        suspensions: Suspensions,
        elasticity: Elasticity,
        observers: Sequence[Callable[[Cycle], None]] = (),
        policy: Policy = DEFAULT,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._binder = binder
        self._evictor = evictor
        self._suspensions = suspensions
        self._elasticity = elasticity
        self._observers = observers
        self._policy = self._with_grace(policy)
        self._isolated: dict[Key, tuple[int, str]] = {}  # -> how often, what was raised
        self._seen: tuple[int, ...] | None = None
        self._next_s = 0.0
        self._wake_s = float("inf")
        self.last: Cycle | None = None
        self.cycles = 0
        self.seconds: dict[str, float] = {}
        """What each step of the last cycle took: snapshot, decide, bind, evict."""
        self.laps = Laps()
        """What each action of the last cycle took, and what came before them."""

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        runtime.need(*_NEEDED)
        self._evictor.setup(runtime)
        served = (kind for kind in ADDED_RESOURCES if serves(runtime.port, kind))
        self._device_kinds = device_kinds(runtime.port)
        if not self._device_kinds:
            self._encoder.unseen_claims(_NO_DEVICES)
        for resource in (*RESOURCES, *served, *self._device_kinds):
            runtime.informer(resource).on_change(partial(self._changed, resource))

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        self._encoder.apply(resource, old, new)
        self.kick()

    @property
    def policy(self) -> Policy:
        """What it decides by."""
        return self._policy

    def use(self, policy: Policy) -> None:
        """Decides by another policy from the next cycle on."""
        policy = self._with_grace(policy)
        if policy != self._policy:
            self._policy = policy
            self._seen = None
            self.kick()

    def _with_grace(self, policy: Policy) -> Policy:
        """The installation's staleness grace is for gangs and policies that state none."""
        if policy.evicting.staleness_grace_s != DEFAULT.evicting.staleness_grace_s:
            return policy
        grace_s = self._config.staleness_grace_s
        knobs = dataclasses.replace(policy.evicting, staleness_grace_s=grace_s)
        return dataclasses.replace(policy, evicting=knobs)

    def tell(self, observer: Callable[[Cycle], None]) -> None:
        """One more who is told of every cycle."""
        self._observers = (*self._observers, observer)

    def kick(self) -> None:
        """Asks for a cycle as soon as the period allows."""
        now = self._runtime.clock.now()
        self._runtime.enqueue(self.name, "cycle", max(0.0, self._next_s - now))

    def reconcile(self, key: str) -> float | None:
        if key.startswith(_RETRY):
            namespace, _, name = key.removeprefix(_RETRY).partition("/")
            group = Key(namespace, name)
            self._encoder.release(group)
            if group in self._isolated:
                self._isolated[group] = (self._isolated[group][0], "")
            self.kick()
            return None
        if key == "again":
            self._seen = None
            self.kick()
            return None
        now = self._runtime.clock.now()
        if now < self._next_s:
            return self._next_s - now
        if not self._fresh():
            return _LOOK_AGAIN_S
        for resource in _OPTIONAL:
            connected = self._runtime.informer(resource).connected
            self._encoder.trust(resource, connected)
        if self._device_kinds:
            seen = all(self._runtime.informer(kind).connected for kind in self._device_kinds)
            self._encoder.unseen_claims("" if seen else _UNSEEN_DEVICES)
        version = self._encoder.version
        if version == self._seen and now < self._wake_s:
            return self._until_wake(now)
        self._next_s = now + self._config.period_s
        begin_s = steady_s()
        encoded = self._encoder.snapshot(now)
        shown_s = steady_s()
        self.laps = Laps()
        policy = self._paced()
        never = self._suspensions.irreplaceable()
        last = self._suspensions.last_resort()
        seen = self._elasticity.veil(encoded)
        plan = choose(seen, never, last, lambda s: self._decide(encoded, s, policy))
        self.seconds = {"snapshot": shown_s - begin_s, "decide": steady_s() - shown_s}
        self._act(encoded, plan)
        self._elasticity.settle(encoded, plan, policy, self._decide)
        self._seen = version  # not before: what fails half-way is to be done again
        wake_s = min(
            self._encoder.next_stuck_s(now) + 0.001,
            next_moment(encoded.snapshot, policy),
            self._evictor.allowed_again_s(),
        )
        self._wake_s = wake_s
        return self._until_wake(now)

    def _until_wake(self, now: float) -> float | None:
        return max(0.001, self._wake_s - now) if self._wake_s != float("inf") else None

    def _paced(self) -> Policy:
        """The policy with what the pace of evictions leaves."""
        allowance = self._evictor.allowance()
        if allowance is None:
            return self._policy
        knobs = dataclasses.replace(self._policy.evicting, allowance=allowance)
        return dataclasses.replace(self._policy, evicting=knobs)

    def _fresh(self) -> bool:
        """Old news is no ground for a decision: every watch that matters must be open."""
        return all(self._runtime.informer(resource).connected for resource in _NEEDED)

    def _decide(self, encoded: Encoded, snapshot: Snapshot, policy: Policy) -> Plan:
        def timed(snapshot: Snapshot) -> Plan:
            self.laps.begin()
            return decide(snapshot, policy, self.laps)

        plan, offenders = decide_without_offenders(timed, snapshot)
        for gang, message in offenders.items():
            self._isolate(encoded.names.gang(gang), message)
        return plan

    def _isolate(self, group: Key, message: str) -> None:
        """Sets a gang aside for a while; its PodGroup says so."""
        times = self._isolated.get(group, (0, ""))[0] + 1
        self._isolated[group] = (times, message)
        self._encoder.hold(group)
        wait = min(_ISOLATED_LAST_S, _ISOLATED_FIRST_S * 2 ** min(times - 1, 10))
        self._runtime.enqueue(self.name, f"{_RETRY}{group.namespace}/{group.name}", wait)

    def _act(self, encoded: Encoded, plan: Plan) -> None:
        begin_s = steady_s()
        self._binder.bind(encoded, plan)
        bound_s = steady_s()
        leaving = self._evictor.evict(encoded, plan)
        self.seconds |= {"bind": bound_s - begin_s, "evict": steady_s() - bound_s}
        encoded = self._with_isolated(encoded)
        failing = self._binder.failing()
        self.last = cycle = carried_out(self.cycles, encoded, plan, failing, leaving)
        self.cycles += 1
        for observe in self._observers:
            observe(cycle)

    def _with_isolated(self, encoded: Encoded) -> Encoded:
        """Names the gangs that were set aside among what is wrong."""
        gangs = set(encoded.names.gangs) if self._isolated else set[Key]()
        self._isolated = {key: v for key, v in self._isolated.items() if key in gangs}
        if not self._isolated:
            return encoded
        mend = "makes the scheduler fail and is left out, please report it"
        wrong = tuple(
            Problem("PodGroup", key.namespace, key.name, "spec", f"{mend} ({message})")
            for key, (_, message) in sorted(self._isolated.items())
            if message
        )
        return dataclasses.replace(encoded, problems=(*encoded.problems, *wrong))

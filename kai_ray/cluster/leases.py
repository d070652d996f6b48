"""Leader election on a Lease, by the rules that every Kubernetes component follows (client-go).

Whoever holds the lease renews it every `retry_s`. It leads until `renew_s` after its last renewal,
by its own clock; others take the lease `duration_s` after they saw it change, by theirs. So clocks
may differ, but not run at different speeds, and between two leaders lies `duration_s - renew_s`.

A lease does not make writes exclusive: a process can be stopped between looking at the clock and
writing. See `fenced.py`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from . import resources as kinds
from .clock import Clock, rfc3339, steady_s
from .port import ApiError, NotFound, Object, Port

log = logging.getLogger(__name__)

#: How much a standby varies its tries, as a part of `retry_s`: many must not come at once.
_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Which lease, as whom, and how long everything takes (client-go's defaults)."""

    identity: str
    name: str = "kai-ray"
    namespace: str = "kai-scheduler"
    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_s > _JITTER * self.retry_s > 0:
            raise ValueError(
                "a lease's duration must be longer than its renewal, and that longer than "
                f"{_JITTER} retries: {self.duration_s}, {self.renew_s}, {self.retry_s}"
            )


class Election:
    """One candidate. `step` does what is due and says when to come again; one caller at a time.

    `steady` gives seconds that nobody sets; `clock` only writes times for people to read.
    `leads` and `term` may be read from any thread.
    """

    def __init__(
        self,
        port: Port,
        config: LeaseConfig,
        clock: Clock,
        *,
        steady: Callable[[], float] = steady_s,
        rng: random.Random | None = None,
    ) -> None:
        self.config = config
        self._port = port
        self._clock = clock
        self._steady = steady
        self._rng = rng or random.Random()
        self._lease: Object | None = None  # as last seen
        self._seen_s = 0.0  # when it was last seen to change
        self._renewed_s: float | None = None  # when the renewal that succeeded last was begun
        self._term = 0

    @property
    def holder(self) -> str:
        """Who holds the lease, as last seen."""
        return str((self._spec()).get("holderIdentity") or "")

    @property
    def term(self) -> int:
        """How often the lease had changed hands when we took it: no two leaders share one."""
        return self._term

    def leads(self) -> bool:
        """Whether we may act now."""
        renewed_s = self._renewed_s
        return renewed_s is not None and self._steady() < renewed_s + self.config.renew_s

    def holds(self) -> bool:
        """Whether we have it, though it may be overdue: then nobody has taken it as far as seen."""
        return self._renewed_s is not None

    def step(self) -> float:
        """Takes or renews the lease; in how many seconds to call again."""
        try:
            won = self._try()
        except ApiError as error:
            log.warning("lease %s/%s: %s", self.config.namespace, self.config.name, error)
            won = False
        if won:
            return self.config.retry_s
        if self._renewed_s is not None:
            if self.leads() and not self._taken():
                return self.config.retry_s
            log.warning("lost the lease to %s", self.holder or "nobody: it could not be renewed")
            self._renewed_s = None
        wait_s = self.config.retry_s * (1 + self._rng.random() * _JITTER)
        return max(0.05, min(wait_s, self._left_s() + 0.05 * self._rng.random()))

    def release(self) -> None:
        """Gives the lease back, so that a standby need not wait until it has run out."""
        if not self.leads() or self._taken() or self._lease is None:
            self._renewed_s = None
            return
        self._renewed_s = None
        spec = {**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1}
        now = rfc3339(self._clock.now(), micro=True)
        try:
            self._write({**spec, "renewTime": now, "acquireTime": now})
        except ApiError as error:
            log.warning("the lease is not given back: %s", error)

    def _try(self) -> bool:
        begun_s = self._steady()
        if self.leads() and self._lease is not None:
            try:  # nobody else may write it: what we saw is what is there
                return self._hold(begun_s)
            except ApiError as error:
                log.debug("renewal without reading failed: %s", error)
        begun_s = self._steady()
        if not self._look():
            return self._create(begun_s)
        if self.holder and self._taken() and self._left_s() > 0:
            return False
        return self._hold(begun_s)

    def _look(self) -> bool:
        """Reads the lease; False if there is none."""
        try:
            found = self._port.get(kinds.LEASE, self.config.name, self.config.namespace)
        except NotFound:
            self._lease = None
            return False
        if self._lease is None or found.get("spec") != self._lease.get("spec"):
            self._seen_s = self._steady()
        self._lease = found
        return True

    def _taken(self) -> bool:
        """Whether another holds it."""
        return self.holder != self.config.identity

    def _left_s(self) -> float:
        """Until what another holds has run out."""
        if not self.holder or not self._taken():
            return 0.0 if self._lease is not None else self.config.retry_s
        lasts_s = float(self._spec().get("leaseDurationSeconds") or self.config.duration_s)
        return self._seen_s + lasts_s - self._steady()

    def _create(self, begun_s: float) -> bool:
        now = rfc3339(self._clock.now(), micro=True)
        spec = self._ours(now, acquired=now, transitions=0)
        about = {"name": self.config.name, "namespace": self.config.namespace}
        made = self._port.create(kinds.LEASE, {"metadata": about, "spec": spec})
        self._took(made, begun_s, fresh=True)
        return True

    def _hold(self, begun_s: float) -> bool:
        now, old = rfc3339(self._clock.now(), micro=True), self._spec()
        transitions = int(old.get("leaseTransitions") or 0)
        # A name of ours that this process has not taken itself is of a life before: a new term.
        fresh = self._taken() or self._renewed_s is None
        if fresh:
            spec = self._ours(now, acquired=now, transitions=transitions + 1)
        else:
            acquired = str(old.get("acquireTime") or now)
            spec = self._ours(now, acquired=acquired, transitions=transitions)
        self._took(self._write(spec), begun_s, fresh=fresh)
        return True

    def _ours(self, now: str, *, acquired: str, transitions: int) -> Object:
        return {
            "holderIdentity": self.config.identity,
            "leaseDurationSeconds": max(1, round(self.config.duration_s)),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _write(self, spec: Object) -> Object:
        """Replaces what was last seen; refused with Conflict if it has changed since."""
        assert self._lease is not None
        return self._port.update(kinds.LEASE, {**self._lease, "spec": spec})

    def _took(self, lease: Object, begun_s: float, *, fresh: bool) -> None:
        self._lease, self._seen_s = lease, self._steady()
        if fresh:
            self._term = int(lease["spec"].get("leaseTransitions") or 0)
            log.info("took the lease for term %d", self._term)
        self._renewed_s = begun_s

    def _spec(self) -> Object:
        return (self._lease or {}).get("spec") or {}

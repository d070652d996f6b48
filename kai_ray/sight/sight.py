"""Sight: what can be seen of a running scheduler, made once and read by all who show it."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kai_ray.cluster.port import Key
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import facts as f
from kai_ray.controllers.compose import Control
from kai_ray.controllers.cycle import Cycle
from kai_ray.sight.decisions import Decisions
from kai_ray.sight.figures import (
    CycleFigures,
    NodeFigures,
    QueueFigures,
    cycle_figures,
    node_figures,
    queue_figures,
)
from kai_ray.sight.gpu import GpuSight
from kai_ray.sight.lives import Lives, Subscriber

log = logging.getLogger(__name__)

_CYCLES_KEPT = 256
OnCycle = Callable[[CycleFigures], None]


@dataclass(slots=True)
class Totals:
    """Counted since the start of the process; they only grow. Pods, but `started` is gangs."""

    cycles: int = 0
    bound: int = 0
    nominated: int = 0
    started: int = 0
    evicted: Counter[str] = field(default_factory=Counter[str])  # by reason
    seconds: dict[str, float] = field(default_factory=dict[str, float])  # by step


class Sight:
    """A controller beside the others, told of every cycle of every node pool.

    Attributes may be read from any thread. Figures are computed when somebody asks for them, at
    most once a cycle, and not by the loop.
    """

    name = "sight"

    def __init__(self) -> None:
        self.lives = Lives(self.name, self._figures_of)
        self.decisions = Decisions(self.lives.of)
        self.gpu = GpuSight()
        self.totals = Totals()
        self.version = 0
        """Grows with each cycle and with each event of a job."""
        self._cycles: dict[str, Cycle] = {}
        self._controls: dict[str, Control] = {}
        self._gangs: dict[str, f.GangFacts] = {}
        self._figures: deque[CycleFigures] = deque(maxlen=_CYCLES_KEPT)
        self._listeners: tuple[OnCycle, ...] = ()
        self._lock = threading.Lock()
        self._queues: tuple[int, QueueFigures] | None = None
        self._nodes: tuple[int, NodeFigures] | None = None
        self._count = 0
        self.lives.subscribe(self._event)

    # ------------------------------------------------------------------ reading

    @property
    def queues(self) -> QueueFigures:
        """After the last cycles; without any yet, no columns."""
        with self._lock:
            made = self._queues
            if made is None or made[0] != self._count:
                count = self._count
                made = self._queues = (count, queue_figures(dict(self._cycles)))
            return dataclasses.replace(made[1], reasons=self.lives.reasons())

    @property
    def nodes(self) -> NodeFigures:
        with self._lock:
            made = self._nodes
            if made is None or made[0] != self._count:
                count = self._count
                made = self._nodes = (count, node_figures(dict(self._cycles)))
            return made[1]

    @property
    def cycle(self) -> CycleFigures | None:
        """The last one of any node pool."""
        return self._figures[-1] if self._figures else None

    @property
    def cycles(self) -> tuple[CycleFigures, ...]:
        """The last ones, oldest first."""
        return tuple(self._figures.copy())

    def last(self, pool: str) -> Cycle | None:
        """The whole record of a node pool's last cycle; arrays of every pod: do not keep it."""
        return self._cycles.get(pool)

    @property
    def pools(self) -> tuple[str, ...]:
        return tuple(sorted(self._cycles))

    # ------------------------------------------------------------------ being told

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Calls back with each JobEvent, on the loop's thread: return at once. Ends by the answer.

        Example:
            >>> from kai_ray.sight.sight import Sight
            >>> end = Sight().subscribe(print)
            >>> end()
        """
        return self.lives.subscribe(callback)

    def on_cycle(self, callback: OnCycle) -> Callable[[], None]:
        """Calls back with the figures of each cycle, likewise."""
        self._listeners = (*self._listeners, callback)

        def end() -> None:
            self._listeners = tuple(c for c in self._listeners if c is not callback)

        return end

    # ------------------------------------------------------------------ the loop's side

    def watch(self, pool: str, control: Control) -> None:
        """Begins to look at what serves a node pool."""
        self._controls[pool] = control
        control.loop.tell(lambda cycle: self._observe(pool, control, cycle))
        control.idle.told.append(self.lives.warn)
        control.events.on_evicted(self.lives.evicted)

    def forget(self, pool: str) -> None:
        """A node pool that is served no more."""
        for known in (self._controls, self._cycles, self._gangs):
            known.pop(pool, None)
        self._changed()

    def setup(self, runtime: Runtime) -> None:
        self.lives.setup(runtime)
        self.gpu.setup(runtime)

    def reconcile(self, key: str) -> float | None:
        return self.lives.reconcile(key)

    def _observe(self, pool: str, control: Control, cycle: Cycle) -> None:
        if self._controls.get(pool) is not control:
            return  # it was replaced
        assert control.status.moved is not None  # it observes first
        gangs, moved = control.status.moved
        self._gangs[pool] = gangs
        self.lives.begin()
        self.lives.observe(cycle, gangs, moved)
        figures = cycle_figures(
            pool, cycle, dict(control.loop.seconds), dict(control.loop.laps.seconds)
        )
        self._cycles[pool] = cycle
        self._figures.append(figures)
        self._add(figures)
        self.decisions.add(figures, cycle)
        self._changed()
        for listener in self._listeners:
            try:
                listener(figures)
            except Exception:
                log.exception("a listener stumbled over cycle %d", figures.number)

    def _add(self, figures: CycleFigures) -> None:
        totals = self.totals
        totals.cycles += 1
        totals.bound += figures.bound
        totals.nominated += figures.nominated
        totals.started = self.lives.started
        totals.evicted.update(figures.evicted)
        _sum_up(totals.seconds, figures.seconds)

    def _event(self, event: object) -> None:
        self.version += 1

    def _changed(self) -> None:
        self._count += 1
        self.version += 1

    def _figures_of(self, group: Key) -> list[int] | None:
        for gangs in self._gangs.values():
            row = gangs.row_of.get(group)
            if row is not None:
                return gangs.figures[:, row].tolist()
        return None


def _sum_up(sums: dict[str, float], seconds: Mapping[str, float]) -> None:
    for step, value in seconds.items():
        sums[step] = sums.get(step, 0.0) + value

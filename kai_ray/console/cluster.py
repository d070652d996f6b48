"""One cluster as the console sees it: caches, boards over them, what the scheduler tells of itself.

A process that schedules lends its own caches and its `Sight`; for any other cluster the console
keeps caches of its own. A leader that has lost its lease begins anew with other caches: the boards
follow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Port, Unavailable
from kai_ray.cluster.runtime import Runtime
from kai_ray.console.job_board import JobBoard
from kai_ray.console.lately import Lately
from kai_ray.console.node_board import NodeBoard
from kai_ray.gpu.use import GpuUse

if TYPE_CHECKING:
    from kai_ray.controllers.scheduling import SchedulingLoop
    from kai_ray.history.reader import HistoryReader
    from kai_ray.report.prices import Prices
    from kai_ray.sight.sight import Sight

#: Kinds without which there is nothing to show.
NEEDED = (R.QUEUE, R.NODE, R.POD_GROUP, R.POD)
#: An API server says something about every kind at least this often.
SILENT_S = 40.0
#: Answers that are kept for who asks next.
MOST_KEPT = 64
#: How long somebody waits for boards that another is making.
PATIENCE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Inside:
    """What a process that schedules tells beside its caches."""

    sight: Sight
    loop: Callable[[str], SchedulingLoop | None]  # of a node pool
    history: HistoryReader | None = None
    prices: Prices | None = None
    problems: Callable[[], list[str]] = list
    """What does not work just now, in sentences."""


@dataclass(frozen=True)
class Records:
    """What is known of the past of a cluster that another process schedules."""

    history: HistoryReader | None = None
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """`state`: ok, starting or down."""

    state: str
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "ok"


class View:
    """The boards over the caches of one runtime. Made once for each."""

    def __init__(self, runtime: Runtime, inside: Inside | None, records: Records) -> None:
        self.runtime = runtime
        self.inside = inside
        self.history = inside.history if inside is not None else records.history
        self.prices = inside.prices if inside is not None else records.prices
        gpu = getattr(inside.sight, "gpu", None) if inside is not None else None
        use = gpu.use if gpu is not None else GpuUse()
        use.setup(runtime)
        self.queues = runtime.informer(R.QUEUE)
        self.namespaces = runtime.informer(R.NAMESPACE)
        self.queues_version = 0
        self._kept: dict[Hashable, tuple[Hashable, Any]] = {}
        self._kept_lock = threading.Lock()
        self.queues.on_change(self._queue_changed)
        self.explaining = threading.Lock()
        """Held while a decision is made again for somebody: one at a time."""
        self.lately = Lately(inside.sight if inside is not None else None)
        self.jobs = JobBoard()
        self.nodes = NodeBoard(use)
        self.jobs.attach(runtime)
        self.nodes.attach(runtime)

    def _queue_changed(self, old: object, new: object) -> None:
        self.queues_version += 1

    def kept(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """The last answer to a question, as long as its version stands; shared by all viewers."""
        with self._kept_lock:
            known = self._kept.get(key)
        if known is not None and known[0] == version:
            return known[1]
        made = make()
        with self._kept_lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (version, made)
        return made

    @property
    def now_s(self) -> float:
        return self.runtime.clock.now()

    @property
    def at(self) -> str:
        return rfc3339(self.now_s)

    def health(self) -> Health:
        """Whether what is shown is what there is."""
        hidden: list[str] = []
        for kind in NEEDED:
            informer = self.runtime.informer(kind)
            if informer.connected:
                if informer.age_s() > SILENT_S:
                    return Health("down", f"nothing heard of {kind.plural} for {SILENT_S:g} s")
                continue
            if informer.absent:
                hidden.append(informer.problem)
            elif informer.problem:
                return Health("down", informer.problem)
            else:
                return Health("starting", "the first list is on its way")
        return Health("ok", "; ".join(hidden))


class Cluster:
    """`view` is safe from any thread. `port` reads single objects."""

    def __init__(
        self,
        name: str,
        runtime: Callable[[], Runtime],
        port: Port,
        *,
        home: bool = True,
        inside: Callable[[], Inside | None] = lambda: None,
        records: Records | None = None,
    ) -> None:
        self.name = name
        self.home = home
        self.port = port
        self._runtime = runtime
        self._inside = inside
        self._records = records or Records()
        self._lock = threading.Lock()
        self._view: View | None = None
        self._health: tuple[Health, str] = (Health("starting"), "")

    def view(self) -> View:
        """The boards of the present caches. Raises Unavailable while there are none."""
        if not self._lock.acquire(timeout=PATIENCE_S):
            raise Unavailable("it is being asked what it serves")
        try:
            runtime = self._runtime()
            if self._view is None or self._view.runtime is not runtime:
                self._view = View(runtime, self._inside(), self._records)
            return self._view
        finally:
            self._lock.release()

    def health(self) -> tuple[Health, str]:
        """How it is, and since when."""
        try:
            view = self.view()
            now, at = view.health(), view.at
        except ApiError as error:
            now, at = Health("starting", error.message), ""
        if self._health[0] != now:
            self._health = (now, at)
        return self._health

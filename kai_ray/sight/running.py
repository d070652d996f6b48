"""What cycles and evictions do to a gang: it is placed, runs, grows, shrinks, loses its pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import facts as f
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.facts import GangFacts
from kai_ray.controllers.podgroup_status import started
from kai_ray.podgrouper.outcome import outcome
from kai_ray.scheduler.snapshot import GPU
from kai_ray.sight.events import What
from kai_ray.sight.life import Life
from kai_ray.sight.placed import NOWHERE, Place, places
from kai_ray.sight.roll import Roll
from kai_ray.sight.workload import Workloads

#: What a gang has lost is told after this long: most often it is about to end well.
SETTLE_S = 1.0
LOST = "lost"


class Running:
    def __init__(
        self, roll: Roll, workloads: Workloads, figures: Callable[[Key], list[int] | None]
    ) -> None:
        """`figures` are those of a gang after the last cycle (facts.py)."""
        self._roll = roll
        self._workloads = workloads
        self._figures = figures
        self._kinds_of: tuple[list[str], list[tuple[str, str]]] = ([], [])
        self.started = 0
        """Gangs so far, each time that they start."""

    def setup(self, runtime: Runtime) -> None:
        self._nodes = runtime.informer(kinds.NODE)

    def observe(self, cycle: Cycle, gangs: GangFacts, moved: Sequence[Key]) -> None:
        """Takes in a cycle; `moved` are gangs with other figures than after the one before."""
        now = self._roll.now()
        rows = {key: gangs.row_of[key] for key in moved if self._roll.of(key) is not None}
        found = places(cycle, list(rows.values())) if rows else {}
        for key, row in rows.items():
            life = self._roll.of(key)
            assert life is not None
            figures = gangs.figures[:, row].tolist()
            asked = f.amounts(figures, gangs, requested=True)[GPU]
            if asked > life.gpus or (asked and not figures[f.SUCCEEDED]):
                life.gpus = asked  # pods that have ended ask for nothing, but they did
            if life.phase != "ended":
                self._moved(life, figures, found.get(row, NOWHERE), cycle, now)
        self._nominated(cycle, now)

    def _moved(
        self, life: Life, figures: list[int], place: Place, cycle: Cycle, now: float
    ) -> None:
        before = life.place
        if place != before:
            life.place, life.types = place, self._types(cycle, place)
        seen, life.placed = life.placed, True
        holds = started(figures)
        if not seen and life.runs:
            self._roll.tell(life, life.since_s, "started", replayed=True)
        if holds and not life.runs:
            self._starts(life, now)
        elif life.runs and place.pods > before.pods and holds:
            if seen:
                self._roll.tell(life, now, "grew")
            life.lost_s = life.lost_s if life.broken else None
        elif life.runs and (place.pods < before.pods or not holds):
            self._lost(life, now)
        elif not life.runs and place.pods != before.pods and seen:
            self._roll.tell(life, now, "grew" if place.pods > before.pods else "shrunk")
        if life.phase == "ready" and not figures[f.READY]:
            life.broken = True
            self._lost(life, now)
        if seen:
            self._ready(life, figures)
        elif life.runs and figures[f.READY] and figures[f.RUNNING]:
            life.phase = "ready"  # since when is not known

    def _ready(self, life: Life, figures: list[int]) -> None:
        if life.phase == "started" and figures[f.READY] and figures[f.RUNNING]:
            life.phase = "ready"
            self._roll.tell(life, self._roll.now(), "ready")

    def _lost(self, life: Life, now: float) -> None:
        """It holds or runs less than before; whether it ends is known a moment later."""
        if life.lost_s is None:
            life.lost_s = now
            self._roll.due(LOST, life.key, SETTLE_S)

    def _starts(self, life: Life, now: float) -> None:
        self._roll.forget_wait(life)
        life.phase, life.since_s, life.message = "started", now, ""
        life.nominated, life.broken, life.leaving, life.lost_s = False, False, None, None
        what: What = "resumed" if life.starts else "started"
        life.starts += 1
        self.started += 1
        self._roll.tell(life, now, what)

    def _nominated(self, cycle: Cycle, now: float) -> None:
        plan, encoded = cycle.plan, cycle.encoded
        if not plan.nominate_task.size:
            return
        gang = encoded.snapshot.tasks.gang[plan.nominate_task]
        nodes: dict[int, dict[int, None]] = {}
        for row, node in zip(gang.tolist(), plan.nominate_node.tolist(), strict=True):
            nodes.setdefault(row, {})[node] = None
        for row, on in nodes.items():
            life = self._roll.of(encoded.names.gang(row))
            if life is not None and not life.nominated and life.phase == "waiting":
                life.nominated = True
                where = tuple(encoded.names.node(n) for n in on)
                self._roll.tell(life, now, "nominated", nodes=where)

    def _types(self, cycle: Cycle, place: Place) -> tuple[tuple[str, str, float], ...]:
        """GPUs by product and node pool."""
        nodes = cycle.encoded.names.nodes
        if self._kinds_of[0] is not nodes:
            self._kinds_of = (nodes, [_kind_of(self._nodes.get(name)) for name in nodes])
        sums: dict[tuple[str, str], float] = {}
        for node, gpus in place.by_node:
            if gpus:
                slot = self._kinds_of[1][node]
                sums[slot] = sums.get(slot, 0.0) + gpus
        return tuple((*slot, gpus) for slot, gpus in sorted(sums.items()))

    def settle(self, key: Key) -> None:
        """A gang held less for a moment and has not ended meanwhile."""
        life = self._roll.of(key)
        if life is None or life.lost_s is None or not life.runs:
            return
        at_s, life.lost_s = life.lost_s, None
        broken, life.broken = life.broken, False
        figures = self._figures(key)
        if figures is not None and started(figures):
            words = life.leaving or ("", "", "")
            life.leaving = None
            if not broken:
                self._roll.tell(life, at_s, "shrunk", words[0], words[1], for_whom=words[2])
                return
            reason, message = "PodsReplaced", "pods of its minimum went, and others came for them"
            self._roll.tell(life, at_s, "interrupted", reason, message)
            self._starts(life, at_s)
            self._ready(life, figures)
            return
        owner = self._workloads.of(life)
        if owner is not None and outcome(owner):
            return  # its PodGroup is about to say so
        what: What = "interrupted"
        if owner is not None and self._workloads.suspended(life, owner):
            what = "suspended"
        life.phase, life.since_s = ("suspended" if what == "suspended" else "waiting"), at_s
        self._roll.tell(life, at_s, what)

    # ------------------------------------------------------------------ evictions

    def evicted(
        self,
        group: Key,
        reason: str,
        message: str,
        beneficiary: Key | None,
        pods: int,
        whole: bool,
    ) -> None:
        """Pods of a gang had to leave."""
        life = self._roll.of(group)
        if life is None or life.phase == "ended":
            return
        other = self._roll.of(beneficiary) if beneficiary is not None else None
        whom = other.job if other is not None else ""
        if beneficiary is not None and other is None:
            whom = f"PodGroup {beneficiary.namespace}/{beneficiary.name}"
        if not whole:
            life.leaving = (reason, message, whom)
            return
        now = self._roll.now()
        where = life.place.nodes
        self._roll.forget_wait(life)
        life.phase, life.since_s, life.evicted_s, life.lost_s = "waiting", now, now, None
        life.place, life.types = NOWHERE, ()
        life.evictions += 1
        self._roll.tell(life, now, "evicted", reason, message, for_whom=whom, nodes=where)


def _kind_of(node: Object | None) -> tuple[str, str]:
    """Product and node pool."""
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    pool = next((labels[name] for name in names.NODE_POOL_NAMES if labels.get(name)), "")
    return str(labels.get(names.GPU_PRODUCT) or ""), str(pool)

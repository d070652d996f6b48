"""Tells gangs beforehand of an end that is set: by maximum run time, by a drain, by idle GPUs.

A notice is given as long before the end as the gang's eviction grace, so that what it promises is
kept and the limit as well: nothing runs longer because it may save its work. The end itself comes
from queue_deadlines.py or idle/; when the limit moves or goes, so does the notice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.grace import grace_s
from kai_ray.controllers.notices import Notices
from kai_ray.controllers.queue_deadlines import holding, run_ends
from kai_ray.encode.queue_policy import SILENT
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import Floats

_STATES = "announcements-grace"
_MESSAGES = {
    Reason.MAX_RUN_TIME_REACHED: "Ends at the maximum run time of its queue",
    Reason.QUEUE_DRAINED: "Its queue is drained: it is evicted if it still runs",
    Reason.GPUS_IDLE: "It does not use its GPUs: by the rule of its queue it has to leave",
}


class Announcements:
    """Controller with the one key "look"."""

    name = "announcements"

    def __init__(
        self,
        config: ControlConfig,
        notices: Notices,
        idle_ends: Callable[[], dict[Key, float]] = dict,
    ) -> None:
        """`idle_ends`: when gangs have to leave that do not use their GPUs."""
        self._config = config
        self._notices = notices
        self._idle_ends = idle_ends
        self._cycle: Cycle | None = None

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.add_index(_STATES, _states_grace)

    def observe(self, cycle: Cycle) -> None:
        self._cycle = cycle
        policies = cycle.encoded.policies
        if any(p.max_run_time_s or p.drain_deadline_s is not None for p in policies) or (
            self._notices.announced() or self._idle_ends()
        ):
            self._runtime.enqueue(self.name, "look")

    def reconcile(self, key: str) -> float | None:
        cycle = self._cycle
        if cycle is None:
            return None
        now, gangs = self._runtime.clock.now(), cycle.encoded.names.gangs
        grace = self._grace(cycle)
        wanted: dict[Key, set[Reason]] = {}
        later = np.inf
        for reason, end in self._ends(cycle):
            tell = end - grace
            told = np.isfinite(end) & (grace > 0) & (tell <= now)
            for row in np.flatnonzero(told).tolist():
                wanted.setdefault(gangs[row], set()).add(reason)
                if end[row] > now:
                    due = float(np.ceil(end[row]))
                    self._notices.announce(gangs[row], reason, due, _MESSAGES[reason])
            ahead = tell[np.isfinite(end) & (grace > 0) & (tell > now)]
            later = min(later, float(ahead.min(initial=np.inf)))
        for group, reasons in self._notices.announced().items():
            for reason in reasons - wanted.get(group, set()):
                self._notices.withdraw_announced(group, reason)
        return None if later == np.inf else max(later - now, 0.001)

    def _ends(self, cycle: Cycle) -> list[tuple[Reason, Floats]]:
        """Per reason [G] when gangs that hold pods are ended; inf where they are not."""
        encoded = cycle.encoded
        queue = encoded.snapshot.gangs.queue
        drains = np.array(
            [np.inf if p.drain_deadline_s is None else p.drain_deadline_s for p in encoded.policies]
            + [np.inf]
        )
        drained = np.where(holding(cycle), drains[queue], np.inf)
        return [
            (Reason.MAX_RUN_TIME_REACHED, run_ends(cycle)),
            (Reason.QUEUE_DRAINED, drained),
            (Reason.GPUS_IDLE, self._idle(cycle)),
        ]

    def _idle(self, cycle: Cycle) -> Floats:
        found = np.full(cycle.encoded.snapshot.gangs.count, np.inf)
        ends = self._idle_ends()
        if ends:
            for row, key in enumerate(cycle.encoded.names.gangs):
                found[row] = ends.get(key, np.inf)
        return found

    def _grace(self, cycle: Cycle) -> Floats:
        """[G] how long before its end each gang is told."""
        encoded = cycle.encoded
        silent: Object = {"metadata": {}}
        by_queue = [grace_s(silent, p, self._config) for p in (*encoded.policies, SILENT)]
        queue = encoded.snapshot.gangs.queue
        found = np.array(by_queue)[queue]
        stating = self._groups.by_index(_STATES, "yes")
        if stating:
            row_of = {key: row for row, key in enumerate(encoded.names.gangs)}
            policies = (*encoded.policies, SILENT)
            for group in stating:
                meta = group["metadata"]
                row = row_of.get(Key(meta.get("namespace") or "", meta["name"]))
                if row is not None:
                    found[row] = grace_s(group, policies[int(queue[row])], self._config)
        return found


def _states_grace(group: Object) -> tuple[str, ...]:
    notes = group["metadata"].get("annotations")
    return ("yes",) if isinstance(notes, dict) and names.EVICTION_GRACE in notes else ()

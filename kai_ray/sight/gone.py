"""Gangs that have gone: whether their job has gone with them is known a moment later."""

from __future__ import annotations

from kai_ray.cluster.port import Key
from kai_ray.podgrouper.outcome import outcome
from kai_ray.sight.life import Life
from kai_ray.sight.placed import NOWHERE
from kai_ray.sight.roll import Roll
from kai_ray.sight.running import SETTLE_S
from kai_ray.sight.workload import Workloads

#: How often workloads without a gang are looked at, whether they still exist.
LOOK_S = 60.0
GONE, WITHOUT = "gone", "without gangs"


class Gone:
    def __init__(self, roll: Roll, workloads: Workloads) -> None:
        self._roll = roll
        self._workloads = workloads
        self._gone: dict[Key, tuple[Life, float]] = {}
        self._without: dict[str, Life] = {}  # jobs whose gang has gone and may come again

    def vanished(self, key: Key) -> None:
        """A PodGroup was deleted."""
        life = self._roll.of(key)
        if life is None:
            return
        self._roll.drop(life)
        if life.phase != "ended":
            self._roll.forget_wait(life)
            self._gone[key] = (life, self._roll.now())
            self._roll.due(GONE, key, SETTLE_S)

    def again(self, uid: str) -> Life | None:
        """The gang that a job had, where it gets another one."""
        before = self._without.pop(uid, None)
        for key, (life, _) in list(self._gone.items()):
            if life.uid == uid:  # it was not told yet that it had gone
                del self._gone[key]
                before = life
        return before

    def gone_for_good(self, key: Key) -> None:
        life, at_s = self._gone.pop(key, (None, 0.0))
        if life is None or self._roll.of_job(life.uid):
            return  # another gang of the job goes on
        owner = self._workloads.of(life)
        if owner is None or owner["metadata"].get("deletionTimestamp"):
            self._roll.end(life, at_s, outcome(owner or {}) or "Deleted", "")
            return
        how = outcome(owner)
        if how:
            self._roll.end(life, at_s, how, "")
            return
        suspended = self._workloads.suspended(life, owner)
        held = life.runs
        life.place, life.types = NOWHERE, ()
        life.phase, life.since_s = ("suspended" if suspended else "waiting"), at_s
        if suspended:
            self._roll.tell(life, at_s, "suspended")
        elif held:
            self._roll.tell(life, at_s, "interrupted", "Regrouped", "its gang is made again")
        self._without[life.uid] = life
        self._roll.due(WITHOUT, None, LOOK_S)

    def look_for_owners(self) -> float | None:
        """Jobs without a gang end when they are deleted, or say how they ended."""
        for uid, life in list(self._without.items()):
            owner = self._workloads.of(life)
            if owner is None or outcome(owner):
                del self._without[uid]
                how = outcome(owner or {}) or "Deleted"
                self._roll.end(life, self._roll.now(), how, "")
        return LOOK_S if self._without else None

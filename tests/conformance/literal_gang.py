"""A recorded gang by the literal rules: what it holds, whether that is enough, what is next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Recorded states that count as holding a place.
ACTIVE = ("Allocated", "Binding", "Bound", "Running", "Pipelined")
#: Recorded states that occupy room.
HOLDING = ("Allocated", "Binding", "Bound", "Running", "StuckInReleasing", "Releasing")


@dataclass
class Job:
    data: dict[str, Any]
    tasks: list[dict[str, Any]]
    status: dict[str, str]
    leaf_minimum: dict[str, int] = field(default_factory=dict)

    def held(self, leaf: str) -> int:
        return sum(self.status[t["name"]] in ACTIVE for t in self.of(leaf))

    def of(self, leaf: str) -> list[dict[str, Any]]:
        return [t for t in self.tasks if t["subgroup"] == leaf]

    def waiting(self, leaf: str) -> list[dict[str, Any]]:
        rows = [t for t in self.of(leaf) if self.status[t["name"]] == "Pending"]
        rows.sort(
            key=lambda t: (t["order_priority"] is None, -(t["order_priority"] or 0), t["name"])
        )
        return rows

    # A subgroup is a leaf (its recorded pod set) or a set (its recorded group).

    def minimum(self, group: dict[str, Any]) -> int:
        if "min_available" in group:
            return group["min_available"]
        wanted = group.get("min_subgroup")
        return len(children(group)) if wanted is None else wanted

    def count(self, group: dict[str, Any]) -> int:
        if "min_available" in group:
            return self.held(group["name"])
        return sum(self.met(child) for child in children(group))

    def met(self, group: dict[str, Any]) -> bool:
        return self.count(group) >= self.minimum(group)

    def could(self, group: dict[str, Any]) -> bool:
        if "min_available" in group:
            have = self.held(group["name"]) + len(self.waiting(group["name"]))
            return have >= group["min_available"]
        return sum(self.could(child) for child in children(group)) >= self.minimum(group)

    def ordered(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        def key(child: dict[str, Any]) -> tuple[int, float, str]:
            count, minimum = self.count(child), self.minimum(child)
            if count < minimum:
                return (0, 0.0, child["name"])
            if minimum == 0:
                return (2, count, child["name"])
            return (1, count / minimum, child["name"])

        return sorted(children(group), key=key)

    def attempt(self) -> list[dict[str, Any]]:
        """The pods of the next attempt."""
        return self.collect(self.data["subgroups"])

    def collect(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.met(group):
            able = [child for child in self.ordered(group) if self.could(child)]
            chosen: list[dict[str, Any]] = []
            for child in able[: self.minimum(group)]:
                if self.met(child):
                    continue
                if "min_available" in child:
                    missing = child["min_available"] - self.held(child["name"])
                    chosen += self.waiting(child["name"])[:missing]
                else:
                    chosen += self.collect(child)
            return chosen
        for child in self.ordered(group):
            if not self.could(child):
                continue
            if "min_available" in child:
                missing = max(1, child["min_available"] - self.held(child["name"]))
                chosen = self.waiting(child["name"])[:missing]
            else:
                chosen = self.collect(child)
            if chosen:
                return chosen
        return []

    def elastic(self) -> int:
        spare = [self.held(leaf) - least for leaf, least in self.leaf_minimum.items()]
        return 0 if min(spare) < 0 else 2 if max(spare) > 0 else 1

    def torn(self) -> bool:
        """Whether it holds pods, but not its minimum."""
        return any(map(self.held, self.leaf_minimum)) and not self.met(self.data["subgroups"])

    def order(self) -> tuple[Any, ...]:
        age = self.data["created_age_seconds"]
        return (-self.data["priority"], self.elastic(), -age, self.data["name"])


def children(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [*group["pod_sets"], *group["groups"]]


def leaves(group: dict[str, Any]) -> dict[str, int]:
    found = {leaf["name"]: leaf["min_available"] for leaf in group["pod_sets"]}
    for child in group["groups"]:
        found |= leaves(child)
    return found

"""Small random clusters against exhaustive search.

    python -m tests.topology.brute_force [--cases 500] [--seed 0]

Three questions: is a placement found where one exists, are the domains as few as can be, is the
domain the tightest. Prints cases, and the mean and worst ratio of ours to the best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from kai_ray.scheduler import DEFAULT
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.policy import Policy
from tests.core.world import Job, Node, Pod, running
from tests.topology.racks import Bond, Racks

#: Nothing is moved or evicted: what is free is all there is.
ONLY_ALLOCATE = Policy(filters=DEFAULT.filters, scores=DEFAULT.scores, actions=(allocate,))


@dataclass(frozen=True)
class Cluster:
    """Free GPUs per node, and where nodes are."""

    nodes: tuple[Node, ...]
    used: tuple[int, ...]

    @property
    def free(self) -> dict[str, int]:
        return {n.name: n.gpus - u for n, u in zip(self.nodes, self.used, strict=True)}

    def domains(self, depth: int) -> dict[tuple[str, ...], list[str]]:
        """Node names by path of `depth` labels."""
        found: dict[tuple[str, ...], list[str]] = {}
        for node in self.nodes:
            path = (node.labels["zone"], node.labels["rack"])[:depth]
            found.setdefault(path, []).append(node.name)
        return found

    def others(self) -> list[Job]:
        """What holds the rest."""
        return [
            Job(f"held-{n.name}", [running(n.name, gpus=u)], preemptible=False)
            for n, u in zip(self.nodes, self.used, strict=True)
            if u
        ]


@dataclass
class Tally:
    """How often ours met the best, and by how much it missed."""

    cases: int = 0
    missed: int = 0  # a placement exists, none was found
    ratios: list[float] = field(default_factory=list[float])

    @property
    def line(self) -> str:
        mean = sum(self.ratios) / max(len(self.ratios), 1)
        worst = max(self.ratios, default=1.0)
        return (
            f"{self.cases} cases, {self.missed} placements missed, "
            f"domains to the fewest: mean {mean:.4f}, worst {worst:.2f}"
        )


def random_cluster(rng: Random, most: int = 6) -> Cluster:
    """Up to `most` nodes in up to three zones of up to three racks."""
    nodes: list[Node] = []
    used: list[int] = []
    for i in range(rng.randint(2, most)):
        zone, rack = f"z{rng.randrange(3)}", f"r{rng.randrange(3)}"
        gpus = rng.choice([1, 2, 4, 4, 8])
        nodes.append(Node(f"n{i}", gpus=gpus, labels={"zone": zone, "rack": rack}))
        used.append(rng.choice([0, 0, rng.randint(0, gpus)]))
    return Cluster(tuple(nodes), tuple(used))


def packs(free: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether pods of these sizes fit on nodes with these amounts, by trying everything."""
    if not sizes:
        return True
    tried: set[int] = set()
    for i, room in enumerate(free):
        if room >= sizes[0] and room not in tried:
            tried.add(room)
            left = [*free[:i], room - sizes[0], *free[i + 1 :]]
            if packs(left, sizes[1:]):
                return True
    return False


def fewest(cluster: Cluster, sizes: Sequence[int]) -> int:
    """The fewest racks that hold pods of these sizes inside the narrowest domain; 0 = none."""
    free = cluster.free
    racks = cluster.domains(2)
    for depth in (2, 1, 0):
        best = 0
        for path in cluster.domains(depth):
            inside = [rack for rack in racks if rack[:depth] == path]
            for count in range(1, (best or len(inside) + 1)):
                if any(
                    packs([free[n] for rack in some for n in racks[rack]], sizes)
                    for some in combinations(inside, count)
                ):
                    best = count
                    break
        if best:
            return best
    return 0


def spanning(rng: Random, tally: Tally, classes: int) -> None:
    """A gang that prefers a rack."""
    cluster = random_cluster(rng)
    kinds = [rng.choice([1, 1, 2, 3]) for _ in range(classes)]
    sizes = sorted((rng.choice(kinds) for _ in range(rng.randint(1, 7))), reverse=True)
    job = Job("train", [Pod(gpus=g) for g in sizes], minimum=len(sizes))
    world = Racks(cluster.nodes, [*cluster.others(), job], {"train": Bond(preferred="rack")})
    _score(tally, cluster, world, fewest(cluster, sizes))


def _score(tally: Tally, cluster: Cluster, world: Racks, best: int) -> None:
    outcome = world.decide(ONLY_ALLOCATE)
    where = {n.name: (n.labels["zone"], n.labels["rack"]) for n in cluster.nodes}
    mine = len({where[node] for pod, node in outcome.bound.items() if pod.startswith("train-")})
    tally.cases += 1
    assert mine == 0 or best > 0, "placed what cannot be placed"
    if best and not mine:
        tally.missed += 1
    elif best:
        tally.ratios.append(mine / best)


def nested(rng: Random, tally: Tally) -> None:
    """Units that each require a rack, inside one zone."""
    cluster = random_cluster(rng)
    gpus = rng.choice([1, 1, 2])
    units = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    tree = [("", "", len(units), False)]
    tree += [(f"u{i}", "", pods, True) for i, pods in enumerate(units)]
    leaf_of = tuple(f"u{i}" for i, pods in enumerate(units) for _ in range(pods))
    job = Job("train", [Pod(gpus=gpus)] * sum(units), tree=tuple(tree), leaf_of=leaf_of)
    bonds = {f"train/u{i}": Bond(required="rack") for i in range(len(units))}
    bonds["train"] = Bond(required="zone")
    world = Racks(cluster.nodes, [*cluster.others(), job], bonds)
    outcome = world.decide(ONLY_ALLOCATE)
    tally.cases += 1
    exists = any(_units_fit(rooms, units) for rooms in _rack_rooms(cluster, gpus))
    placed = bool(outcome.waits.get("train") is None)
    assert exists or not placed, "placed what cannot be placed"
    tally.missed += exists and not placed
    if placed:
        _hold_to(world, outcome.bound, leaf_of)


def _rack_rooms(cluster: Cluster, gpus: int) -> Iterator[list[int]]:
    """Per zone, how many pods each rack holds."""
    free, racks = cluster.free, cluster.domains(2)
    for zone in cluster.domains(1):
        yield [
            sum(free[n] // gpus for n in names) for path, names in racks.items() if path[:1] == zone
        ]


def _units_fit(rooms: list[int], units: list[int]) -> bool:
    return packs(rooms, sorted(units, reverse=True))


def _hold_to(world: Racks, bound: dict[str, str], leaf_of: tuple[str, ...]) -> None:
    where = {n.name: (n.labels["zone"], n.labels["rack"]) for n in world.nodes}
    at = {i: where[bound[f"train-{i}"]] for i in range(len(leaf_of))}
    assert len({zone for zone, _ in at.values()}) == 1, "out of the zone"
    for leaf in set(leaf_of):
        assert len({at[i] for i, one in enumerate(leaf_of) if one == leaf}) == 1, "out of the rack"


def tightest(rng: Random) -> None:
    """A gang of one class that requires a rack gets the tightest of the tightest zone."""
    cluster = random_cluster(rng)
    pods = rng.randint(1, 6)
    job = Job("train", [Pod()] * pods, minimum=pods)
    world = Racks(cluster.nodes, [*cluster.others(), job], {"train": Bond(required="rack")})
    outcome = world.decide(ONLY_ALLOCATE)
    where = {n.name: (n.labels["zone"], n.labels["rack"]) for n in cluster.nodes}
    room = {
        path: sum(cluster.free[n] for n in names)
        for depth in (1, 2)
        for path, names in cluster.domains(depth).items()
    }
    fitting = [rack for rack in cluster.domains(2) if room[rack] >= pods]
    mine = {where[node] for pod, node in outcome.bound.items() if pod.startswith("train-")}
    if not fitting:
        assert not mine
        return
    best = min(fitting, key=lambda rack: (room[rack[:1]], rack[:1], room[rack], rack))
    assert mine == {best}, f"{mine} is not the tightest, {best}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.topology.brute_force")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = Random(options.seed)
    equal, mixed, units = Tally(), Tally(), Tally()
    for _ in range(options.cases):
        spanning(rng, equal, 1)
        spanning(rng, mixed, 3)
        nested(rng, units)
        tightest(rng)
    print(f"equal pods:    {equal.line}")
    print(f"several kinds: {mixed.line}")
    print(f"nested units:  {units.line}")
    print(f"tightest:      {options.cases} cases, all right")


if __name__ == "__main__":
    main()

"""Random clusters that share cards: pods that run and leave, gangs that wait, two queues."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kai_ray.scheduler.gpu.facts import Claim
from kai_ray.scheduler.snapshot import GPU, TaskState
from tests.core.world import Job, Node, Pod, Queue, World

_STATES = (TaskState.RUNNING, TaskState.RUNNING, TaskState.RUNNING, TaskState.RELEASING)
_PRIORITIES = (10, 50, 90)
CLAIMS = 2


class Room:
    """What the running pods made so far leave of a node."""

    def __init__(self, node: Node) -> None:
        self.node, self.whole = node, node.gpus
        self.cards: dict[int, int] = {}

    def place(self, pod: Pod, claimed: dict[int, str]) -> Pod | None:
        """The pod on this node, or None where it does not fit."""
        opened, slots = pod.gpus, ()
        if pod.part or pod.mib:
            slots = self._slots(pod)
            if len(slots) < pod.devices:
                return None
            opened = sum(slot not in self.cards for slot in slots)
        for claim in pod.claims:
            if claimed.get(claim, self.node.name) != self.node.name:
                return None
            opened += claim not in claimed
        if opened > self.whole:
            return None
        self.whole -= opened
        for slot in slots:
            self.cards[slot] = self.cards.get(slot, 0) + need(pod, self.node)
        claimed.update(dict.fromkeys(pod.claims, self.node.name))
        return replace(pod, node=self.node.name, slots=tuple(slots))

    def _slots(self, pod: Pod) -> tuple[int, ...]:
        each, free, found = need(pod, self.node), self.whole, list[int]()
        for slot in range(self.node.gpus):
            new = slot not in self.cards
            fits = self.cards.get(slot, 0) + each <= (self.node.card or 100)
            if fits and len(found) < pod.devices and (free > 0 or not new):
                free -= new
                found.append(slot)
        return tuple(found)


def need(pod: Pod, node: Node) -> int:
    """MiB of each device that a pod shares there."""
    return max(pod.mib or int(pod.part * (node.card or 100) + 1e-6), 1)


def cluster(seed: int) -> World:
    r = Random(seed)
    nodes = [
        Node(
            f"n{i}",
            gpus=r.randint(0, 4),
            card=r.choice([0, 16_000, 80_000]),
            pods=r.choice([6, 110]),
        )
        for i in range(r.randint(1, 4))
    ]
    if seed % 4 == 0:
        nodes = [replace(n, closed=(r.randrange(n.gpus),) if n.gpus else ()) for n in nodes]
    room, claimed = [Room(node) for node in nodes], dict[int, str]()
    jobs: list[Job] = []
    for i in range(r.randint(0, 8)):
        placed = r.choice(room).place(_pod(r), claimed)
        if placed is not None:
            state = TaskState.RUNNING if placed.claims else r.choice(_STATES)
            running = replace(placed, state=state)
            safe = r.random() < 0.15
            more = {"queue": r.choice("ab"), "created": float(i), "preemptible": not safe}
            jobs.append(Job(f"r{i}", [running], priority=r.choice(_PRIORITIES), **more))  # type: ignore[arg-type]
    for i in range(r.randint(1, 6)):
        size, pod, queue = r.choice([1, 1, 2, 3]), _pod(r), r.choice("ab")
        minimum, priority = r.choice([1, size]), r.choice(_PRIORITIES)
        jobs.append(Job(f"p{i}", [pod] * size, minimum, queue, priority, created=20.0 + i))
    queues = [
        Queue("a", gpu_quota=r.choice([-1, 0, 1, 2.5]), gpu_limit=r.choice([-1, -1, 3.5])),
        Queue("b", gpu_quota=r.choice([-1, 1, 2])),
    ]
    rows = {node.name: i for i, node in enumerate(nodes)}
    claims = [Claim(((GPU, 1),), rows[claimed[c]] if c in claimed else -1) for c in range(CLAIMS)]
    return World(nodes, jobs, queues, claims)


def _pod(r: Random) -> Pod:
    kind = r.randrange(10)
    if kind < 2:
        return Pod(gpus=r.randint(1, 3))
    if kind < 4:
        return Pod(gpus=0)
    if kind < 6:
        mib = r.choice([5_000, 12_000, 20_000, 60_000])
        return Pod(gpus=0, mib=mib, devices=r.choice([1, 1, 2]))
    if kind < 7:
        return Pod(gpus=0, claims=(r.randrange(CLAIMS),))
    part = r.choice([0.1, 0.25, 0.3, 0.5, 0.6, 0.9])
    return Pod(gpus=0, part=part, devices=r.choice([1, 1, 1, 2]))

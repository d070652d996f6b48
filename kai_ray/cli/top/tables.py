"""The three tables: their columns, their orders, and what a row leads to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kai_ray.cli import output
from kai_ray.cli.top.picture import WAITING, Picture
from kai_ray.sight.jobs.listing import Job
from kai_ray.sight.node_list import Node
from kai_ray.sight.queue_list import UNLIMITED, Queue

Kind = Literal["queues", "jobs", "nodes"]
KINDS: tuple[Kind, ...] = ("queues", "jobs", "nodes")


class Bar(NamedTuple):
    """A cell that is drawn: of `scale`, `held` is filled, what exceeds `own` in another colour."""

    held: float
    own: float
    scale: float
    mark: float | None = None  # a line across
    blocks: int = 0  # > 0: a block for each of so many, no smooth bar
    use: float | None = None  # 0 to 1: how well that is used which is held


Cell = str | Bar


class Row(NamedTuple):
    """`key` names the object for as long as it lives: (kind, namespace, name). `use`: how well its
    GPUs are used, 0 to 1; None = not known."""

    key: tuple[str, str, str]
    cells: tuple[Cell, ...]
    obj: Any
    use: float | None = None

    def matches(self, text: str) -> bool:
        wanted = text.lower()
        return any(wanted in cell.lower() for cell in self.cells if isinstance(cell, str))


@dataclass(frozen=True)
class Table:
    """`orders`: (name, key); the first is that of the rows as they come."""

    titles: tuple[str, ...]
    right: frozenset[str]  # columns of numbers
    orders: tuple[tuple[str, Callable[[Row], Any]], ...]


TABLES: dict[Kind, Table] = {
    "queues": Table(
        ("NAME", "GPUS", "HELD", "QUOTA", "FAIR", "BORROWED", "PENDING", "WAITING", "STATE"),
        frozenset(("HELD", "QUOTA", "FAIR", "BORROWED", "PENDING", "WAITING")),
        (
            ("tree", lambda row: 0),
            ("pending", lambda row: -row.obj.gpu.pending),
            ("held", lambda row: -row.obj.gpu.allocated),
            ("name", lambda row: row.obj.name),
        ),
    ),
    "jobs": Table(
        (
            "NAME",
            "NAMESPACE",
            "QUEUE",
            "KIND",
            "GPUS",
            "USE",
            "READY",
            "STATUS",
            "REASON",
            "POS",
            "AGE",
            "MESSAGE",
        ),
        frozenset(("GPUS", "USE", "READY", "POS", "AGE")),
        (
            ("waiting first", lambda row: (_rank(row.obj), row.obj.queue, row.obj.position or 0)),
            ("oldest", lambda row: row.obj.created or "9"),
            ("GPUs", lambda row: -row.obj.gpus),
            ("least used", lambda row: _use(row)),
            ("name", lambda row: row.obj.name),
        ),
    ),
    "nodes": Table(
        ("NAME", "GPUS", "FREE", "USE", "SHARED", "PODS", "STATE", "MODEL", "AGE"),
        frozenset(("FREE", "USE", "SHARED", "PODS", "AGE")),
        (
            ("name", lambda row: 0),
            ("free", lambda row: -row.obj.free),
            ("state", lambda row: (row.obj.state == "Ready", row.obj.state)),
            ("least used", lambda row: _use(row)),
        ),
    ),
}


def _use(row: Row) -> float:
    """What nobody knows comes last."""
    return 2.0 if row.use is None else row.use


def _rank(job: Job) -> int:
    order = (*WAITING, "Starting", "Running", "Suspended")
    return order.index(job.status) if job.status in order else len(order)


def rows(
    picture: Picture, kind: Kind, *, queue: str = "", node: str = "", order: int = 0, text: str = ""
) -> list[Row]:
    """Sorted and filtered. `queue` and `node` leave the jobs of those, `text` what contains it."""
    if kind == "queues":
        found = _queues(picture)
    elif kind == "nodes":
        found = _nodes(picture)
    else:
        found = _jobs(picture, queue, node)
    if text:
        found = [row for row in found if row.matches(text)]
    table = TABLES[kind]
    found.sort(key=table.orders[order % len(table.orders)][1])
    return found


def _queues(picture: Picture) -> list[Row]:
    waiting = picture.waiting
    scale = max((max(_finite(q), default=0.0) for q in picture.queues), default=0.0)
    return [_queue(q, scale, waiting[q.name]) for q in picture.queues]


def _finite(queue: Queue) -> list[float]:
    amounts = (queue.gpu.quota, queue.gpu.allocated, queue.gpu.fair_share or 0.0)
    return [amount for amount in amounts if amount != UNLIMITED]


def _queue(q: Queue, scale: float, waiting: int) -> Row:
    gpu = q.gpu
    own = scale if gpu.quota == UNLIMITED else gpu.quota
    cells: tuple[Cell, ...] = (
        "  " * q.depth + q.name,
        Bar(gpu.allocated, own, scale, gpu.fair_share),
        output.number(gpu.allocated),
        output.number(gpu.quota),
        output.number(gpu.fair_share),
        _unless_zero(gpu.borrowed),
        _unless_zero(gpu.pending),
        _unless_zero(float(waiting)),
        q.state,
    )
    return Row(("queue", "", q.name), cells, q)


def _jobs(picture: Picture, queue: str, node: str) -> list[Row]:
    queues = picture.below(queue) if queue else None
    return [
        _job(job, picture.use_of(job), picture.at_s)
        for job in picture.jobs
        if (queues is None or job.queue in queues) and (not node or node in job.nodes)
    ]


def _job(job: Job, use: float | None, now_s: float) -> Row:
    cells = (
        job.name,
        job.namespace,
        job.queue,
        job.kind,
        output.number(job.gpus),
        _percent(use),
        f"{job.running}/{job.wanted}",
        job.status,
        job.reason,
        str(job.position) if job.position else "",
        output.age(job.created, now_s),
        job.message,
    )
    return Row((job.printed_name, job.namespace, job.name), cells, job, use)


def _nodes(picture: Picture) -> list[Row]:
    return [_node(node, picture.node_use.get(node.name), picture.at_s) for node in picture.nodes]


def _node(node: Node, use: float | None, now_s: float) -> Row:
    held = min(node.used, node.gpus)
    cells: tuple[Cell, ...] = (
        node.name,
        Bar(held, node.gpus, node.gpus, blocks=int(node.gpus), use=use),
        output.number(node.free) if node.gpus else "",
        _percent(use),
        str(len(node.cards)) if node.cards else "",
        f"{node.pods}/{node.slots}",
        node.state,
        node.model,
        output.age(node.created, now_s),
    )
    return Row(("node", "", node.name), cells, node, use)


def _percent(use: float | None) -> str:
    return "" if use is None else f"{use:.0%}"


def _unless_zero(value: float) -> str:
    return output.number(value) if value else ""


def summary(picture: Picture) -> str:
    """The cluster in a line."""
    gpus = sum(node.gpus for node in picture.nodes)
    held = sum(min(node.used, node.gpus) for node in picture.nodes)
    states = [job.status for job in picture.jobs]
    running, waiting = states.count("Running"), sum(s in WAITING for s in states)
    away = sum(node.state != "Ready" for node in picture.nodes)
    words = [
        f"GPUs {output.number(held)}/{output.number(gpus)} held",
        f"{running} running, {waiting} waiting",
        f"{len(picture.nodes)} nodes" + (f", {away} not in order" if away else ""),
    ]
    if picture.node_use:
        words.insert(1, f"used {sum(picture.node_use.values()) / len(picture.node_use):.0%}")
    return "   ".join(words)


def keys(found: Sequence[Row]) -> list[tuple[str, str, str]]:
    return [row.key for row in found]

"""The columns of `kai get queues`."""

from __future__ import annotations

from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.sight.queue_list import UNLIMITED, Queue

COLUMNS: tuple[Column[Queue], ...] = (
    Column("NAME", lambda q: q.name),
    Column("PARENT", lambda q: q.parent),
    Column("QUOTA", lambda q: output.number(q.gpu.quota)),
    Column("ALLOC", lambda q: output.number(q.gpu.allocated)),
    Column("FAIR-SHARE", lambda q: output.number(q.gpu.fair_share)),
    Column("BORROWED", lambda q: output.number(q.gpu.borrowed)),
    Column("PENDING", lambda q: output.number(q.gpu.pending)),
    Column("PRIORITY", lambda q: str(q.priority)),
    Column("STATE", lambda q: q.state),
    Column("LIMIT", lambda q: output.number(q.gpu.limit), wide=True),
    Column("WEIGHT", lambda q: output.number(q.gpu.weight), wide=True),
    Column("CPU-QUOTA", lambda q: cores(q.cpu.quota), wide=True),
    Column("CPU-ALLOC", lambda q: cores(q.cpu.allocated), wide=True),
    Column("MEM-QUOTA", lambda q: megabytes(q.memory.quota), wide=True),
    Column("MEM-ALLOC", lambda q: megabytes(q.memory.allocated), wide=True),
    Column("AGE", lambda q: output.age(q.created)),
)


def cores(millicores: float) -> str:
    return output.number(millicores if millicores == UNLIMITED else millicores / 1000)


def megabytes(amount: float) -> str:
    """MB with the largest unit that keeps it short: 640M, 1.5G, 2T."""
    if amount == UNLIMITED:
        return "unlimited"
    for unit, size in (("T", 1e6), ("G", 1e3)):
        if amount >= size:
            return f"{output.number(amount / size)}{unit}"
    return f"{output.number(amount)}M" if amount else "0"

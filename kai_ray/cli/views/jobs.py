"""The columns of `kai get jobs`."""

from __future__ import annotations

from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.sight.jobs.listing import ENDED, Job

COLUMNS: tuple[Column[Job], ...] = (
    Column("NAME", lambda j: j.name),
    Column("QUEUE", lambda j: j.queue),
    Column("KIND", lambda j: j.kind),
    Column("GPUS", lambda j: "" if j.status in ENDED else output.number(j.gpus)),
    Column("READY", lambda j: f"{j.running}/{j.wanted}"),
    Column("STATUS", lambda j: j.status),
    Column("REASON", lambda j: j.reason),
    Column("POS", lambda j: str(j.position) if j.position else ""),
    Column("PRIORITY", lambda j: str(j.priority), wide=True),
    Column("MIN", lambda j: str(sum(g.minimum for g in j.gangs)), wide=True),
    Column("NODES", lambda j: ",".join(j.nodes), wide=True),
    Column("MESSAGE", lambda j: j.message, wide=True),
    Column("AGE", lambda j: output.age(j.created)),
)
WITH_NAMESPACE: tuple[Column[Job], ...] = (Column("NAMESPACE", lambda j: j.namespace), *COLUMNS)

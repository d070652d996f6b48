"""What users read about waiting: the words of the core, with the names of this cycle."""

from __future__ import annotations

from kai_ray.encode import Encoded
from kai_ray.scheduler.explain import NameTable, amount, explain
from kai_ray.scheduler.plan import Wait
from kai_ray.scheduler.reason import Reason

__all__ = ["amount", "sentence", "word"]


def word(reason: Reason) -> str:
    """The CamelCase form shown in conditions, events and tables: InsufficientGpu."""
    return reason.word


def sentence(wait: Wait, encoded: Encoded) -> str:
    """Why a gang waits, in one line with its figures and the mend where there is one."""
    return explain(wait, name_table(encoded)).text


def name_table(encoded: Encoded) -> NameTable:
    """The names of a cycle's rows."""
    names, queue = encoded.names, encoded.snapshot.gangs.queue

    def queue_of(gang: int) -> str:
        row = int(queue[gang]) if gang >= 0 else -1
        return names.queue(row) if row >= 0 else ""

    return NameTable(
        resources=encoded.snapshot.resources,
        node=names.node,
        queue=names.queue,
        gang=lambda gang: names.gang(gang).name,
        queue_of=queue_of,
        level=names.topologies.level,
        domain=names.topologies.domain,
    )

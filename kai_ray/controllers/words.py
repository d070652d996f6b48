"""What users read about waiting: the words of the core, with the names of this cycle."""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.cluster.port import Key
from kai_ray.encode import Encoded
from kai_ray.scheduler.explain import NameTable, amount, explain
from kai_ray.scheduler.plan import Wait
from kai_ray.scheduler.reason import Reason

#: What users call the gang of a PodGroup.
Called = Callable[[Key], str]

__all__ = ["amount", "sentence", "word"]


def by_name(group: Key) -> str:
    """A gang by the name of its PodGroup: where nothing is known of the workload."""
    return group.name


def word(reason: Reason) -> str:
    """The CamelCase form shown in conditions, events and tables: InsufficientGpu."""
    return reason.word


def sentence(wait: Wait, encoded: Encoded, called: Called = by_name) -> str:
    """Why a gang waits, in one line with its figures and the mend where there is one."""
    return explain(wait, name_table(encoded, called)).text


def name_table(encoded: Encoded, called: Called = by_name) -> NameTable:
    """The names of a cycle's rows."""
    names, queue = encoded.names, encoded.snapshot.gangs.queue

    def queue_of(gang: int) -> str:
        row = int(queue[gang]) if gang >= 0 else -1
        return names.queue(row) if row >= 0 else ""

    return NameTable(
        resources=encoded.snapshot.resources,
        node=names.node,
        queue=names.queue,
        gang=lambda gang: called(names.gang(gang)),
        queue_of=queue_of,
        level=names.topologies.level,
        domain=names.topologies.domain,
    )

"""The columns of `kai get nodes`."""

from __future__ import annotations

from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.sight.node_list import Node

COLUMNS: tuple[Column[Node], ...] = (
    Column("NAME", lambda n: n.name),
    Column("GPU", lambda n: output.number(n.gpus)),
    Column("FREE", lambda n: output.number(n.free)),
    Column("FRAGMENT", lambda n: n.fragment),
    Column("SHARED", lambda n: f"{len(n.cards)} by {_sharers(n)}" if n.cards else ""),
    Column("PODS", lambda n: f"{n.pods}/{n.slots}"),
    Column("STATE", lambda n: n.state),
    Column("MODEL", lambda n: n.model, wide=True),
    Column("CPU", lambda n: n.cpu, wide=True),
    Column("MEMORY", lambda n: n.memory, wide=True),
    Column("ZONE", lambda n: n.zone, wide=True),
    Column("AGE", lambda n: output.age(n.created)),
)
FOLDED: tuple[Column[Node], ...] = (
    COLUMNS[0],
    Column("NODES", lambda n: str(n.count)),
    *COLUMNS[1:-1],
)


def _sharers(node: Node) -> str:
    count = len({name for card in node.cards for name in card.pods})
    return f"{count} pod" + ("s" if count != 1 else "")

"""Are the topology columns of a snapshot well formed: field, what is wrong, what mends it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..snapshot import Codes, Snapshot
from .facts import UNKNOWN

Problem = tuple[str, str, str]


def topology_shape_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Shapes and types; the other check relies on them."""
    topologies = snapshot.topologies
    if topologies is None:
        return
    first, domain = topologies.first, topologies.domain
    if first.ndim != 1 or not first.shape[0] or first.dtype != np.int32:
        yield "topologies.first", "is no row of codes", "give [P + 1] int32"
    elif domain.ndim != 2 or domain.shape[1] != snapshot.nodes.count or domain.dtype != np.int32:
        mend = f"give [levels, {snapshot.nodes.count}] int32"
        yield "topologies.domain", f"has shape {list(domain.shape)}", mend
    elif first[0] != 0 or first[-1] != domain.shape[0] or (np.diff(first) < 1).any():
        mend = f"start at 0, end at {domain.shape[0]}, give each topology a level"
        yield "topologies.first", f"is {first.tolist()}", mend


def topology_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Names of topologies and levels; codes without gaps; a domain inside one wider domain."""
    subgroups, topologies = snapshot.subgroups, snapshot.topologies
    count = 0 if topologies is None else topologies.count
    for name in ("topology", "required_level", "preferred_level"):
        column: Codes | None = getattr(subgroups, name)
        if column is not None and (column < UNKNOWN).any():
            mend = "give a row, -1 for none or -2 for a name that does not exist"
            yield f"subgroups.{name}", f"row {int((column < UNKNOWN).argmax())} is lower", mend
    if subgroups.topology is not None and (subgroups.topology >= count).any():
        row = int((subgroups.topology >= count).argmax())
        mend = f"name one of {count}, -1 for none or -2 for a name that does not exist"
        yield "subgroups.topology", f"row {row} is {int(subgroups.topology[row])}", mend
    if topologies is None:
        return
    if (topologies.domain < -1).any():
        yield "topologies.domain", "has codes below -1", "give codes from 0, or -1 for none"
        return
    for level, row in enumerate(topologies.domain):
        used = np.bincount(row[row >= 0])
        if (used == 0).any():
            mend = "count domains from 0 without gaps, in name order"
            yield "topologies.domain", f"level {level} has no code {int(used.argmin())}", mend
        elif level not in topologies.first and _scattered(topologies.domain[level - 1], row):
            wrong = f"a domain of level {level} lies in two wider ones"
            yield "topologies.domain", wrong, "give each path from the widest level its own code"


def _scattered(wider: Codes, row: Codes) -> bool:
    """Whether nodes of one domain belong to different wider domains."""
    there = (row >= 0) & (wider >= 0)
    pairs = np.unique(np.stack((row[there], wider[there])), axis=1)
    return bool((np.diff(pairs[0]) == 0).any())

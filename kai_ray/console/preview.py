"""What a change of queues would lead to, by the functions that the scheduler decides with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kai_ray.cluster.port import Key, Object
from kai_ray.console.cluster import View
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.told_usage import usage_of
from kai_ray.encode import queues as queue_rows
from kai_ray.scheduler import DEFAULT, Plan, Policy, decide
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import GPU, Floats, Queues
from kai_ray.sight import queue_list

#: Beyond so many pods the next decision is not made beforehand: shares alone.
MOST_PODS = 20_000
MOST_SENTENCES = 20
#: A share that moves by less has not moved.
_LEAST = 0.0005


@dataclass(frozen=True, slots=True)
class Basis:
    """What shares are computed from: [3, Q] and [3], in millicores, bytes, GPUs."""

    names: list[str]
    queues: Queues
    total: Floats
    requested: Floats
    allocated: Floats
    policy: Policy
    cycle: Cycle | None


@dataclass(frozen=True, slots=True)
class Shift:
    """The same queues before and after."""

    basis: Basis
    names: list[str]
    before: Queues
    after: Queues
    share_before: Floats
    share_after: Floats
    allocated: Floats


def basis_of(view: View, pool: str, queues: Sequence[Object]) -> Basis:
    """From the last cycle of a node pool; where there is none, from what the objects say."""
    loop = view.inside.loop(pool) if view.inside is not None else None
    cycle = loop.last if loop is not None else None
    if loop is not None and cycle is not None:
        encoded, plan = cycle.encoded, cycle.plan
        return Basis(
            names=encoded.names.queues,
            queues=encoded.snapshot.queues,
            total=encoded.snapshot.total,
            requested=plan.requested,
            allocated=plan.allocated,
            policy=loop.policy,
            cycle=cycle,
        )
    return _stated(view, queues)


def _stated(view: View, objects: Sequence[Object]) -> Basis:
    tree = queue_rows.build({q["metadata"]["name"]: queue_rows.read(q) for q in objects})
    rows = {q.name: q for q in queue_list.build(list(objects))}
    scale = np.array([[1.0], [1e6], [1.0]])
    requested, allocated = (
        np.array(
            [[getattr(getattr(rows[n], r), field) for n in tree.names] for r in _RESOURCES]
        ).reshape(3, -1)
        * scale
        for field in ("requested", "allocated")
    )
    usage = usage_of(objects)
    used = np.array([usage.queues.get(name, (0.0, 0.0, 0.0)) for name in tree.names])
    queues = dataclasses.replace(tree.queues, usage=used.reshape(-1, 3).T.copy())
    return Basis(tree.names, queues, _total(view), requested, allocated, DEFAULT, None)


_RESOURCES = ("cpu", "memory", "gpu")


def _total(view: View) -> Floats:
    """What nodes that take work have, as they say."""
    from kai_ray.api import quantity

    found = np.zeros(3)
    for row in view.nodes.rows():
        node = row.node
        if not node.ready or node.cordoned:
            continue
        for at, (text, unit) in enumerate(((node.cpu, 1000.0), (node.memory, 1.0))):
            try:
                found[at] += float(quantity.parse(text or "0")) * unit
            except ValueError:
                continue
        found[GPU] += node.gpus
    return found


def shift(basis: Basis, changed: Mapping[str, Object]) -> Shift:
    """The shares with those queues as they would be."""
    after = _with(basis, changed)
    share = basis.policy.share
    return Shift(
        basis=basis,
        names=basis.names,
        before=basis.queues,
        after=after,
        share_before=share(basis.queues, basis.total, basis.requested, basis.policy.k_value),
        share_after=share(after, basis.total, basis.requested, basis.policy.k_value),
        allocated=basis.allocated,
    )


def _with(basis: Basis, changed: Mapping[str, Object]) -> Queues:
    row_of = {name: row for row, name in enumerate(basis.names)}
    quota, limit = basis.queues.quota.copy(), basis.queues.limit.copy()
    weight, priority = basis.queues.weight.copy(), basis.queues.priority.copy()
    paused = basis.queues.paused.copy()
    for name, obj in changed.items():
        row = row_of.get(name)
        if row is None:
            continue  # not part of the tree: it has no share either way
        read = queue_rows.read(obj)
        for at, (own_quota, own_limit, own_weight) in enumerate(read.amounts):
            quota[at, row], limit[at, row], weight[at, row] = own_quota, own_limit, own_weight
        priority[row] = read.priority
        parent = int(basis.queues.parent[row])
        paused[row] = read.paused or (parent >= 0 and bool(paused[parent]))
    for row, parent in enumerate(basis.queues.parent.tolist()):  # children come after parents
        if parent >= 0 and paused[parent]:
            paused[row] = True
    return dataclasses.replace(
        basis.queues, quota=quota, limit=limit, weight=weight, priority=priority, paused=paused
    )


# ---------------------------------------------------------------------- in sentences


def effects(moved: Shift, seen: frozenset[str] | None) -> list[str]:
    """First the shares that move, then what would be decided; at most a few of each."""
    found = list(_share_sentences(moved))
    cycle = moved.basis.cycle
    if cycle is not None and cycle.encoded.snapshot.tasks.count <= MOST_PODS:
        found += _decided(moved, cycle, seen)
    if len(found) > MOST_SENTENCES:
        found = [*found[:MOST_SENTENCES], f"and {len(found) - MOST_SENTENCES} more"]
    return found or ["nothing changes now"]


def _share_sentences(moved: Shift) -> Iterator[str]:
    before, after = moved.share_before[GPU], moved.share_after[GPU]
    held = moved.allocated[GPU]
    for row, name in enumerate(moved.names):
        if abs(after[row] - before[row]) < _LEAST:
            continue
        text = f"queue {name}: fair share {before[row]:.4g} → {after[row]:.4g} GPUs"
        quota = moved.after.quota[GPU, row]
        safe = max(float(after[row]), float(quota)) if quota >= 0 else np.inf
        over = float(held[row]) - safe
        if over > _LEAST and after[row] < before[row]:
            text += f"; {over:.4g} of the {held[row]:.4g} that it holds may be taken back"
        yield text


def _decided(moved: Shift, cycle: Cycle, seen: frozenset[str] | None) -> Iterator[str]:
    """How the next decision would differ."""
    snapshot, policy = cycle.encoded.snapshot, moved.basis.policy
    now = decide(snapshot, policy)
    then = decide(dataclasses.replace(snapshot, queues=moved.after), policy)

    def name(gang: int) -> str:
        key: Key = cycle.encoded.names.gang(gang)
        if seen is None or key.namespace in seen:
            return f"gang {key.namespace}/{key.name}"
        return "a gang that you may not see"

    gang = snapshot.tasks.gang
    started, before = _gangs(gang[then.bind_task]), _gangs(gang[now.bind_task])
    yield from (f"{name(g)} would start" for g in sorted(started - before))
    yield from (f"{name(g)} would not start" for g in sorted(before - started))
    known = {pair[0] for pair in _evicted(gang, now)}
    for victim, reason, whom in _evicted(gang, then):
        if victim not in known:
            known.add(victim)
            text = f"{name(victim)} would be evicted ({Reason(reason).word})"
            yield text + (f" for {name(whom)}" if whom >= 0 else "")


def _gangs(rows: np.ndarray) -> set[int]:
    return {int(row) for row in np.unique(rows) if row >= 0}


def _evicted(gang: np.ndarray, plan: Plan) -> list[tuple[int, int, int]]:
    rows = zip(
        gang[plan.evict_task].tolist(),
        plan.evict_reason.tolist(),
        plan.evict_for.tolist(),
        strict=True,
    )
    return [row for row in rows if row[0] >= 0]

"""The rules of queues, applied to a snapshot: whose turn it is, who may run, and on which nodes.

Classes are shared by all queues; where queues say something about nodes or layout, the classes of
their pods are split, by one vector step over the pods. A cluster without such rules pays nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kai_ray.api import labels as names
from kai_ray.history.usage import Holder, Usage
from kai_ray.scheduler.gpu.facts import GpuKind, Gpus
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import (
    GPU,
    QUEUE_RESOURCES,
    Bools,
    Classes,
    ClassRules,
    Codes,
    Floats,
    Gangs,
    Layout,
    Op,
    Queues,
    Requirement,
    Reserve,
    Selector,
    Snapshot,
)

from .node_rows import NodeCodes, NodeTable
from .queue_policy import QueuePolicy, same_gpu_type
from .settings import EncodeConfig
from .shape import Shape
from .traits import TYPES, type_of_class

if TYPE_CHECKING:
    from .gang_table import GangArrays, GangTable
    from .queues import QueueTree

_GPU_CLASS_COLUMNS = ("kind", "devices", "portion", "mib", "mig_share")


def node_keys(policies: Sequence[QueuePolicy], nodes: NodeTable) -> set[str]:
    """Labels of nodes that the rules look at."""
    keys: set[str] = set()
    if any(p.pools is not None for p in policies):
        keys.update(names.NODE_POOL_NAMES)
    if any(p.gpu_types is not None for p in policies):
        keys.add(names.GPU_PRODUCT)
    if any(names.RESERVED_FOR in row.labels for row in nodes.rows.values()):
        keys.add(names.RESERVED_FOR)
    return keys


def queues(rows: Queues, tree: QueueTree, usage: Usage) -> Queues:
    """The queues with what they had so far."""
    more: dict[str, Floats] = {}
    if usage.queues:
        used = [usage.queues.get(name, (0.0, 0.0, 0.0)) for name in tree.names]
        more["usage"] = np.array(used, dtype=np.float64).reshape(-1, QUEUE_RESOURCES).T.copy()
    return dataclasses.replace(rows, **more) if more else rows


def govern(
    found: GangArrays,
    table: GangTable,
    policies: Sequence[QueuePolicy],
    queue_names: list[str],
    priorities: dict[str, int],
    config: EncodeConfig,
    usage: Usage,
    bare: Bools,
) -> Gangs:
    """The gangs with the priorities, refusals and user shares that follow from rules."""
    gangs = _default_priorities(found, table, policies, priorities, config)
    more: dict[str, NDArray[np.generic]] = {}
    refusal = _refusals(found, table, policies)
    if refusal.any():
        more["refusal"] = refusal
    leave = _leavers(gangs, refusal, policies, bare)
    if leave.any():
        more["leave"] = leave
    if usage.users:
        more["user_usage"] = _user_usage(found, table, queue_names, usage)
    return dataclasses.replace(gangs, **more) if more else gangs


def _default_priorities(
    found: GangArrays,
    table: GangTable,
    policies: Sequence[QueuePolicy],
    priorities: dict[str, int],
    config: EncodeConfig,
) -> Gangs:
    gangs, silent = found.gangs, table.classes.ids.get("", -1)
    value = np.full(len(policies) + 1, -1, dtype=np.int64)
    for i, policy in enumerate(policies):
        if policy.default_priority in priorities:
            value[i] = priorities[policy.default_priority]
    stated = np.zeros(len(policies) + 1, dtype=np.bool_)
    stated[:-1] = [p.default_priority in priorities for p in policies]
    rows = stated[gangs.queue] & (found.class_symbols == silent)
    if not rows.any():
        return gangs
    priority = np.where(rows, value[gangs.queue], gangs.priority).astype(np.int32)
    by_priority = priority < config.non_preemptible_from
    open_ = rows & (found.explicit < 0)
    return dataclasses.replace(
        gangs, priority=priority, preemptible=np.where(open_, by_priority, gangs.preemptible)
    )


def _refusals(found: GangArrays, table: GangTable, policies: Sequence[QueuePolicy]) -> Codes:
    gangs = found.gangs
    refusal = np.zeros(gangs.count, dtype=np.int32)
    for i, policy in enumerate(policies):
        if policy.priorities is None:
            continue
        allowed = np.zeros(len(table.classes) + 1, dtype=np.bool_)
        for name, symbol in table.classes.ids.items():
            allowed[symbol] = (name or policy.default_priority) in policy.priorities
        mine = gangs.queue == i
        refusal[mine & ~allowed[found.class_symbols]] = int(Reason.PRIORITY_NOT_ALLOWED)
    state = np.zeros(len(table.traits) + 1, dtype=np.int32)
    for traits, symbol in table.traits.ids.items():
        if traits.idle:
            state[symbol] = int(Reason.GPUS_IDLE)
        if traits.ended:
            state[symbol] = int(Reason.MAX_RUN_TIME_REACHED)
        if traits.suspended:
            state[symbol] = int(Reason.SUSPENDED)
    if state.any():
        said = state[found.trait_symbols]
        refusal = np.where(said > 0, said, refusal)
    return refusal


def _leavers(gangs: Gangs, refusal: Codes, policies: Sequence[QueuePolicy], bare: Bools) -> Codes:
    """[G] why a gang must go now. Bare pods are not suspended: nobody would make them again."""
    drained = np.zeros(len(policies) + 1, dtype=np.bool_)
    drained[:-1] = [bool(p.drained) for p in policies]
    leave = np.where(drained[gangs.queue], int(Reason.QUEUE_DRAINED), 0).astype(np.int32)
    for reason, rows in (
        (Reason.MAX_RUN_TIME_REACHED, refusal == int(Reason.MAX_RUN_TIME_REACHED)),
        (Reason.GPUS_IDLE, refusal == int(Reason.GPUS_IDLE)),
        (Reason.SUSPENDED, (refusal == int(Reason.SUSPENDED)) & ~bare),
    ):
        leave[rows] = int(reason)
    return leave


def _user_usage(
    found: GangArrays, table: GangTable, queue_names: list[str], usage: Usage
) -> Floats:
    """[G] the largest part of any resource that the gang's user had in its queue."""
    queue = found.gangs.queue.astype(np.int64)
    pairs = queue * (len(table.traits) + 1) + found.trait_symbols
    distinct, back = np.unique(pairs, return_inverse=True)
    part = np.zeros(distinct.shape[0])
    for i, pair in enumerate(distinct.tolist()):
        row, symbol = divmod(pair, len(table.traits) + 1)
        if row >= 0:
            holder = Holder(queue_names[row], table.traits.key(symbol).user)
            part[i] = max(usage.users.get(holder, (0.0,)))
    return part[back.reshape(-1)]


def split_classes(
    snapshot: Snapshot,
    shapes: tuple[Shape, ...],
    found: GangArrays,
    table: GangTable,
    policies: Sequence[QueuePolicy],
    codes: NodeCodes,
) -> tuple[Snapshot, tuple[Shape, ...]]:
    """A class per (class, what the queue of its pods says about nodes and layout); reserves."""
    variants = _Variants(found, table, policies, codes)
    reserves = tuple(
        Reserve(i, p.reserved.gpus, p.reserved.size, variants.nodes_of(p))
        for i, p in enumerate(policies)
        if p.reserved is not None and p.reserved.gpus
    )
    if reserves:
        snapshot = dataclasses.replace(snapshot, reserves=reserves)
    if not variants.needed:
        return snapshot, shapes
    tasks = snapshot.tasks
    code = variants.of_gang[tasks.gang]
    pairs = tasks.klass.astype(np.int64) * variants.count + code
    distinct, klass = np.unique(pairs, return_inverse=True)
    origin, variant = np.divmod(distinct, variants.count)
    parts = [
        variants.rules(snapshot, int(c), int(v))
        for c, v in zip(origin.tolist(), variant.tolist(), strict=True)
    ]
    split = dataclasses.replace(
        snapshot,
        classes=_classes(snapshot.classes, origin, tuple(parts)),
        peers=tuple(dataclasses.replace(p, matches=p.matches[origin]) for p in snapshot.peers),
        tasks=dataclasses.replace(tasks, klass=klass.reshape(-1).astype(np.int32)),
        gpus=_gpus(snapshot.gpus, origin),
    )
    pairs_of = zip(origin.tolist(), variant.tolist(), strict=True)
    return split, tuple(variants.shape(shapes[c], v) for c, v in pairs_of) if shapes else shapes


def _classes(classes: Classes, origin: NDArray[np.int64], rules: tuple[ClassRules, ...]) -> Classes:
    return dataclasses.replace(
        classes,
        request=np.ascontiguousarray(classes.request[:, origin]),
        queue_request=np.ascontiguousarray(classes.queue_request[:, origin]),
        rules=rules,
    )


def _gpus(gpus: Gpus | None, origin: NDArray[np.int64]) -> Gpus | None:
    if gpus is None:
        return None
    columns = {name: getattr(gpus, name) for name in _GPU_CLASS_COLUMNS}
    return dataclasses.replace(
        gpus, **{name: c[origin] for name, c in columns.items() if c is not None}
    )


class _Variants:
    """What queues and types say about nodes, numbered; 0 = nothing."""

    def __init__(
        self,
        found: GangArrays,
        table: GangTable,
        policies: Sequence[QueuePolicy],
        codes: NodeCodes,
    ) -> None:
        self._codes = codes
        kept = names.RESERVED_FOR in codes.key_row
        silent = (Layout.POLICY, None, None, None)
        said = [(p.layout or Layout.POLICY, p.pools, p.gpu_types, p.align) for p in policies]
        self.needed = kept or any(s != silent for s in said)
        self._said = [silent, *sorted(set(said) - {silent}, key=repr)]
        self._types = TYPES if kept else ("",)
        self.count = 1 + len(self._said) * len(self._types)
        if not self.needed:
            return
        by_queue = np.zeros(len(policies) + 1, dtype=np.int64)
        by_queue[:-1] = [self._said.index(s) for s in said]
        kind = self._kinds(found, table) if kept else np.zeros(found.gangs.count, dtype=np.int64)
        number = by_queue[found.gangs.queue] * len(self._types) + kind
        own = number + 1 if kept else np.where(number > 0, number + 1, 0)
        self.of_gang = np.append(own, 0)  # the last serves pods of no gang, -1
        self._reserved = {t: self._not_reserved(t) for t in self._types} if kept else {"": ()}
        self._pools = {s[1]: self._pool(s[1]) for s in self._said}
        self._gpu_types = {s[2]: self._product(s[2]) for s in self._said}

    def nodes_of(self, policy: QueuePolicy) -> tuple[Selector, ...]:
        """Nodes with GPUs that a queue may use."""
        return self._pool(policy.pools) + self._product(policy.gpu_types)

    def rules(self, snapshot: Snapshot, klass: int, variant: int) -> ClassRules:
        rules = snapshot.classes.rules[klass]
        if variant == 0:
            return rules
        said, kind = divmod(variant - 1, len(self._types))
        layout, pools, gpu_types, _ = self._said[said]
        selectors = self._pools[pools]
        if _asks_gpu(snapshot, klass):
            selectors += self._gpu_types[gpu_types]
        reserved = self._reserved[self._types[kind]]
        return dataclasses.replace(rules, queue_nodes=selectors, reserved=reserved, layout=layout)

    def shape(self, shape: Shape, variant: int) -> Shape:
        """A class that asks for no alignment itself is aligned as its queue says."""
        align = self._said[(variant - 1) // len(self._types)][3] if variant else None
        if not align or shape.zones.policies:
            return shape
        return shape._replace(zones=shape.zones._replace(policies=align))

    def _kinds(self, found: GangArrays, table: GangTable) -> NDArray[np.int64]:
        """[G] index into the types."""
        by_class = np.zeros(len(table.classes) + 1, dtype=np.int64)
        for name, symbol in table.classes.ids.items():
            by_class[symbol] = TYPES.index(type_of_class(name))
        stated = np.full(len(table.traits) + 1, -1, dtype=np.int64)
        for traits, symbol in table.traits.ids.items():
            if traits.type:
                stated[symbol] = TYPES.index(traits.type)
        own = stated[found.trait_symbols]
        return np.where(own >= 0, own, by_class[found.class_symbols])

    def _pool(self, pools: tuple[str, ...] | None) -> tuple[Selector, ...]:
        if pools is None:
            return ()
        terms = [
            (self._one_of(key, pools),)
            for key in names.NODE_POOL_NAMES
            if key in self._codes.key_row
        ]
        return (tuple(terms),)

    def _product(self, types: tuple[str, ...] | None) -> tuple[Selector, ...]:
        if types is None or names.GPU_PRODUCT not in self._codes.key_row:
            return ()
        known = self._codes.values[self._codes.key_row[names.GPU_PRODUCT]]
        wanted = tuple(v for v in known if any(same_gpu_type(t, v) for t in types))
        return (((self._one_of(names.GPU_PRODUCT, wanted),),),)

    def _not_reserved(self, kind: str) -> tuple[Selector, ...]:
        row = self._codes.key_row[names.RESERVED_FOR]
        open_to = tuple(v for v in self._codes.values[row] if kind in re.split(r"[._]", v))
        free = Requirement(row, Op.DOES_NOT_EXIST)
        return (((free,), (self._one_of(names.RESERVED_FOR, open_to),)),)

    def _one_of(self, key: str, values: tuple[str, ...]) -> Requirement:
        row = self._codes.key_row[key]
        codes = self._codes.values[row]
        return Requirement(row, Op.IN, tuple(sorted(codes[v] for v in values if v in codes)))


def _asks_gpu(snapshot: Snapshot, klass: int) -> bool:
    gpus = snapshot.gpus
    if gpus is not None and gpus.kind[klass] != GpuKind.NONE:
        return True
    return bool(snapshot.classes.request[GPU, klass] > 0)

"""What a Plan that evicts says about the room that becomes free: whose it is, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kai_ray.cluster.port import Key
from kai_ray.encode import Encoded
from kai_ray.encode.eviction_facts import Move
from kai_ray.scheduler import Plan

_GRACE_S = 30.0
_MARGIN_S = 10.0


def nominations(encoded: Encoded, plan: Plan) -> dict[Key, dict[str, str]]:
    """Per gang, which of its waiting pods goes to which node."""
    found: dict[Key, dict[str, str]] = {}
    for task, node, leaves in _rows(plan):
        if not leaves:
            group = encoded.names.gang(int(encoded.snapshot.tasks.gang[task]))
            found.setdefault(group, {})[encoded.names.pod(task).name] = encoded.names.node(node)
    return found


def moves_of(encoded: Encoded, plan: Plan) -> dict[Key, list[Move]]:
    """Per gang, where pods that leave are to be made again, and what they ask for.

    They come back under other names, so the room is described and not the pod.
    """
    tasks, found = encoded.snapshot.tasks, dict[Key, list[Move]]()
    for task, node, leaves in _rows(plan):
        if leaves:
            group = encoded.names.gang(int(tasks.gang[task]))
            found.setdefault(group, []).append(move(encoded, task, node))
    return found


def move(encoded: Encoded, task: int, node: int) -> Move:
    """A pod like this one, to be made again on a node."""
    snapshot, klass = encoded.snapshot, int(encoded.snapshot.tasks.klass[task])
    amounts = snapshot.classes.request[:, klass].tolist()
    request = tuple((r, n) for r, n in zip(snapshot.resources, amounts, strict=True) if n)
    cpu, memory, gpu = snapshot.classes.queue_request[:, klass].tolist()
    return Move(encoded.names.node(node), request, (cpu, memory, gpu))


def slowest_s(encoded: Encoded, tasks: Sequence[int]) -> float:
    """How long the slowest of these pods may take to end in order, and a little."""
    graces = [_GRACE_S]
    for task in tasks:
        pod = encoded.names.pod_object(task) or {"spec": {}}
        grace = pod["spec"].get("terminationGracePeriodSeconds")
        if isinstance(grace, int | float):
            graces.append(float(grace))
    return max(graces) + _MARGIN_S


def _rows(plan: Plan) -> Iterator[tuple[int, int, bool]]:
    """(task, node, whether it has to leave where it is) of all nominations."""
    leaving = set(plan.evict_task.tolist())
    for task, node in zip(plan.nominate_task.tolist(), plan.nominate_node.tolist(), strict=True):
        yield task, node, task in leaving

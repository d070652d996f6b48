"""Queues: what each may use, uses, and is entitled to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.console import shapes
from kai_ray.console.api.events import conditions_of, events_of
from kai_ray.console.asking import Ask
from kai_ray.console.cluster import View
from kai_ray.sight import queue_list


def queues(ask: Ask) -> shapes.Queues:
    """Every queue in the order of the tree: parents before children, siblings by name."""
    if not ask.viewer.may_list(R.QUEUE):
        problem = f"{ask.viewer.name} may not list queues"
        return shapes.Queues(ask.view.at, False, [], problem)
    view = ask.view
    found = rows(ask, view)
    return shapes.Queues(view.at, any(row.may_edit for row in found), found)


def rows(ask: Ask, view: View) -> list[shapes.Queue]:
    """None where the viewer may not list queues."""
    if not ask.viewer.may_list(R.QUEUE):
        return []
    known = queue_list.build(view.queues.list())
    edited = ask.viewer.may_edit(q.name for q in known) if ask.cluster.home else frozenset[str]()
    waiting = _upwards(view.jobs.waiting(), known)
    children = Counter(queue.parent for queue in known)
    return [
        _row(queue, queue.name in edited, waiting[queue.name], children[queue.name])
        for queue in known
    ]


def queue(ask: Ask) -> shapes.QueueDetail:
    """One queue with its conditions and events, and the policies that hold for it."""
    ask.must_list(R.QUEUE)
    view, name = ask.view, ask.path["name"]
    row = next((row for row in rows(ask, view) if row.name == name), None)
    if row is None:
        raise NotFound(f"there is no queue {name!r}")
    known = queue_list.build(view.queues.list())
    found = next(queue for queue in known if queue.name == name)
    below = _below(name, known)
    seen = ask.sees(view)
    states = Counter(
        r.job.status
        for r in view.jobs.rows()
        if r.job.queue in below and (seen is None or r.job.namespace in seen)
    )
    meta = found.object["metadata"]
    return shapes.QueueDetail(
        **{name: getattr(row, name) for name in row.__struct_fields__},
        policies=[(title, text) for title, text in queue_list.policies(found, known) if text],
        conditions=conditions_of(found.object),
        events=events_of(ask, found.object | {"kind": "Queue"}),
        jobs=shapes.JobCounts(states.total(), dict(states)),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
    )


def _row(queue: queue_list.Queue, may_edit: bool, waiting: int, children: int) -> shapes.Queue:
    ready = _ready(queue.object)
    return shapes.Queue(
        name=queue.name,
        display_name=(queue.object.get("spec") or {}).get("displayName") or "",
        parent=queue.parent,
        depth=queue.depth,
        children=children,
        priority=queue.priority,
        state=queue.state,
        ready=ready.get("status") != "False",
        problem=str(ready.get("message") or "") if ready.get("status") == "False" else "",
        created=queue.created,
        may_edit=may_edit,
        resource_version=queue.object["metadata"].get("resourceVersion") or "",
        gpu=_amount(queue.gpu),
        cpu=_amount(queue.cpu),
        memory=_amount(queue.memory),
        waiting_jobs=waiting,
    )


def _ready(queue: Object) -> Object:
    conditions = (queue.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == "Ready"), {})


def _amount(amount: queue_list.Amount) -> shapes.Amount:
    return shapes.Amount(
        quota=amount.quota,
        limit=amount.limit,
        weight=amount.weight,
        allocated=amount.allocated,
        requested=amount.requested,
        fair_share=amount.fair_share,
        borrowed=amount.borrowed,
        pending=amount.pending,
    )


def _upwards(own: Counter[str], known: list[queue_list.Queue]) -> Counter[str]:
    """With those of the queues below; parents come before children."""
    total = Counter(own)
    for queue in reversed(known):
        if queue.parent and queue.depth:
            total[queue.parent] += total[queue.name]
    return total


def _below(name: str, known: Iterable[queue_list.Queue]) -> set[str]:
    found = {name}
    for queue in known:  # parents before children
        if queue.depth and queue.parent in found:
            found.add(queue.name)
    return found

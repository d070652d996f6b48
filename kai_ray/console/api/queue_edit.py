"""Changing a queue, and what that would lead to before it is done.

The preview asks the core itself: fair shares by the function of the scheduler's policy on the
figures of its last cycle, and, where the cluster is not too large for it, what would be decided.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from kai_ray.admission.queues import quantity_causes
from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object, Unavailable
from kai_ray.console import shapes
from kai_ray.console.api import queues
from kai_ray.console.asking import Ask, Refused
from kai_ray.console.preview import Basis, Shift, basis_of, effects, shift

_STATES = ("Active", "Paused")
RESOURCES = (("gpu", 2), ("cpu", 0), ("memory", 1))
_FIELDS = ("quota", "limit", "weight")


def change(ask: Ask) -> shapes.Queue:
    """Changes what is given and leaves the rest. 409 where the queue has changed since
    `resourceVersion`; 422 names the field that is wrong."""
    given = ask.given(shapes.QueueChange)
    name, view = ask.path["name"], ask.view
    ask.must_list(R.QUEUE)
    before = view.queues.get(name)
    if before is None:
        raise NotFound(f"there is no queue {name!r}")
    patch = _patch(given)
    if not patch:
        raise Refused("nothing to change: give at least one field")
    _check(_changed(before, given))
    if given.resource_version:
        patch.setdefault("metadata", {})["resourceVersion"] = given.resource_version
    made = _written(ask, name, patch)
    view.queues_version += 1
    row = next((row for row in queues.rows(ask, view) if row.name == name), None)
    if row is None:
        raise NotFound(f"queue {name!r} has gone meanwhile")
    return _as_written(row, made)


def _written(ask: Ask, name: str, patch: Object) -> Object:
    port = ask.port
    try:
        return port.patch(R.QUEUE, name, patch)
    except Unavailable as error:
        raise Unavailable(f"{error.message}: look whether the change was made") from error


def _as_written(row: shapes.Queue, made: Object) -> shapes.Queue:
    """The row with the queue's new spec, though the caches may not have it yet."""
    from kai_ray.sight import queue_list

    new = queue_list.queue(made, row.depth)
    for name, _ in RESOURCES:
        amount, stated = getattr(row, name), getattr(new, name)
        for field in _FIELDS:
            setattr(amount, field, getattr(stated, field))
        over = amount.allocated - amount.quota
        amount.borrowed = max(0.0, over) if amount.quota >= 0 else 0.0
    row.priority, row.state = new.priority, new.state
    row.display_name = (made.get("spec") or {}).get("displayName") or ""
    row.resource_version = made["metadata"].get("resourceVersion") or ""
    return row


def preview(ask: Ask) -> shapes.Previewed:
    """Fair shares before and after, and in sentences what the scheduler would do next."""
    given = ask.given(shapes.Preview)
    ask.must_list(R.QUEUE)
    view = ask.view
    known = {queue["metadata"]["name"]: queue for queue in view.queues}
    changed: dict[str, Object] = {}
    problems: list[shapes.Problem] = []
    for at, one in enumerate(given.changes):
        if one.name not in known:
            raise Refused(f"there is no queue {one.name!r}", field=f"changes[{at}].name")
        changed[one.name] = after = _changed(changed.get(one.name, known[one.name]), one)
        problems += [
            shapes.Problem(one.name, _field(c.get("field")), str(c.get("message")))
            for c in _causes(after)
        ]
    if problems:
        return shapes.Previewed(False, problems, [], [])
    rows: list[shapes.QueueEffect] = []
    sentences: list[str] = []
    with view.explaining:
        for basis in _bases(ask, known.values(), changed):
            moved = shift(basis, changed)
            rows += _effects(moved)
            sentences += effects(moved, ask.sees(view))
    return shapes.Previewed(True, [], rows, sentences)


def _bases(ask: Ask, known: Iterable[Object], changed: dict[str, Object]) -> Iterator[Basis]:
    """One for each node pool that a changed queue is in."""
    pools = sorted({_pool(queue) for queue in changed.values()})
    for pool in pools:
        yield basis_of(ask.view, pool, [q for q in known if _pool(q) == pool])


def _pool(queue: Object) -> str:
    return (queue["metadata"].get("labels") or {}).get(L.NODE_POOL) or ""


# ---------------------------------------------------------------------- what is to change


def _patch(given: shapes.QueueChange) -> Object:
    spec: Object = {}
    resources = _resources(given)
    if resources:
        spec["resources"] = resources
    if given.priority is not None:
        spec["priority"] = given.priority
    if given.display_name is not None:
        spec["displayName"] = given.display_name or None
    patch: Object = {"spec": spec} if spec else {}
    notes = _notes(given)
    if notes:
        patch["metadata"] = {"annotations": notes}
    return patch


def _resources(given: shapes.QueueChange) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, _ in RESOURCES:
        amount: shapes.AmountChange | None = getattr(given, name)
        if amount is None:
            continue
        keys = (("quota", "quota"), ("limit", "limit"), ("weight", "overQuotaWeight"))
        stated = {
            key: _neat(getattr(amount, field))
            for field, key in keys
            if getattr(amount, field) is not None
        }
        if stated:
            found[name] = stated
    return found


def _notes(given: shapes.QueueChange) -> dict[str, str | None]:
    if given.state is None:
        return {}
    if given.state not in _STATES:
        known = " or ".join(_STATES)
        raise Refused(f"{given.state[:40]!r} is no state to choose: {known}", field="state")
    if given.state == "Paused":
        return {L.QUEUE_PAUSED: "true"}
    return dict.fromkeys((L.QUEUE_PAUSED, L.DRAIN_DEADLINE, L.DRAINED))


def _neat(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _changed(queue: Object, given: shapes.QueueChange) -> Object:
    """The queue as it would be; the one given stays as it is."""
    after = copy.deepcopy(queue)
    spec = after.setdefault("spec", {})
    for name, stated in _resources(given).items():
        spec.setdefault("resources", {}).setdefault(name, {}).update(stated)
    if given.priority is not None:
        spec["priority"] = given.priority
    notes = after["metadata"].setdefault("annotations", {})
    for key, value in _notes(given).items():
        notes.pop(key, None)
        if value is not None:
            notes[key] = value
    return after


def _causes(queue: Object) -> list[Object]:
    return quantity_causes(queue)


def _check(queue: Object) -> None:
    for cause in _causes(queue):
        raise Refused(str(cause.get("message")), field=_field(cause.get("field")))


def _field(path: Any) -> str:
    """`spec.resources.gpu.overQuotaWeight` as the console's own words: `gpu.weight`."""
    text = str(path or "").removeprefix("spec.").removeprefix("resources.")
    return text.replace("overQuotaWeight", "weight")


# ---------------------------------------------------------------------- what it would lead to


def _effects(moved: Shift) -> Iterator[shapes.QueueEffect]:
    for row, name in enumerate(moved.names):
        parts = {
            resource: shapes.ShareChange(
                _share(moved, row, at, before=True), _share(moved, row, at, before=False)
            )
            for resource, at in RESOURCES
        }
        priority = shapes.PriorityChange(
            int(moved.before.priority[row]), int(moved.after.priority[row])
        )
        yield shapes.QueueEffect(name=name, priority=priority, **parts)


def _share(moved: Shift, row: int, at: int, *, before: bool) -> shapes.Share:
    queues_ = moved.before if before else moved.after
    share = moved.share_before if before else moved.share_after
    scale = 1e-6 if at == 1 else 1.0

    def amount(value: float) -> float:
        return -1.0 if value == -1 else round(float(value) * scale, 3)

    return shapes.Share(
        quota=amount(queues_.quota[at, row]),
        limit=amount(queues_.limit[at, row]),
        weight=float(queues_.weight[at, row]),
        fair_share=amount(share[at, row]),
        allocated=amount(moved.allocated[at, row]),
    )

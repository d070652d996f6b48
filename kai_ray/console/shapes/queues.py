"""Queues, and changes of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kai_ray.console.shapes.base import Condition, Event, Given, Shape, Short


class Amount(Shape):
    quota: float
    limit: float
    weight: float
    allocated: float
    requested: float
    fair_share: float | None
    borrowed: float
    pending: float


class Queue(Shape):
    """`waiting_jobs` counts those of the queues below as well; `problem`: why it starts nothing."""

    name: str
    display_name: str
    parent: str
    depth: int
    children: int
    priority: int
    state: str
    ready: bool
    problem: str
    created: str
    may_edit: bool
    resource_version: str
    gpu: Amount
    cpu: Amount
    memory: Amount
    waiting_jobs: int


class Queues(Shape):
    at: str
    editable: bool
    queues: list[Queue]
    problem: str = ""


class JobCounts(Shape):
    total: int
    by_state: dict[str, int]


class QueueDetail(Queue):
    policies: list[tuple[str, str]]
    conditions: list[Condition]
    events: list[Event]
    jobs: JobCounts
    labels: dict[str, str]
    annotations: dict[str, str]


Most = 2.0**62
Quantity = Annotated[float, Meta(ge=-1, le=Most)]


class AmountChange(Given):
    """What is not given stays. -1 is unlimited."""

    quota: Quantity | None = None
    limit: Quantity | None = None
    weight: Annotated[float, Meta(ge=0, le=Most)] | None = None


class QueueChange(Given):
    """What is not given stays. `resource_version`: refuse if the queue has changed since."""

    resource_version: Short = ""
    priority: Annotated[int, Meta(ge=-(2**31) + 1, le=2**31 - 1)] | None = None
    display_name: Short | None = None
    gpu: AmountChange | None = None
    cpu: AmountChange | None = None
    memory: AmountChange | None = None
    state: str | None = None


class NamedChange(QueueChange, kw_only=True):
    name: Short


class Preview(Given):
    changes: Annotated[list[NamedChange], Meta(min_length=1, max_length=200)]


class Share(Shape):
    quota: float
    limit: float
    weight: float
    fair_share: float
    allocated: float


class ShareChange(Shape):
    before: Share
    after: Share


class PriorityChange(Shape):
    before: int
    after: int


class QueueEffect(Shape):
    name: str
    gpu: ShareChange
    cpu: ShareChange
    memory: ShareChange
    priority: PriorityChange


class Problem(Shape):
    queue: str
    field: str
    message: str


class Previewed(Shape):
    """`effects` says in sentences what would be decided next."""

    valid: bool
    problems: list[Problem]
    queues: list[QueueEffect]
    effects: list[str]

"""A queue: what it may use, what it uses, and what can be done with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kai_ray.api import labels as L
from kai_ray.api import quantity
from kai_ray.api.durations import parse_duration
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import NotFound as Gone
from kai_ray.cluster.port import Object, Port
from kai_ray.sdk import html
from kai_ray.sdk.errors import Conflict, InvalidManifest, NotFound
from kai_ray.sdk.telling import told
from kai_ray.sight import queue_list
from kai_ray.sight.queue_list import Amount

if TYPE_CHECKING:
    from kai_ray.sdk.client import Client
    from kai_ray.sdk.job import JobList

COLUMNS = ("NAME", "PARENT", "QUOTA", "ALLOC", "FAIR-SHARE", "BORROWED", "PENDING", "STATE")
RESOURCES = ("gpu", "cpu", "memory")
UNLIMITED = "unlimited"
LARGEST = 2.0**60
#: What a new queue has where its maker says nothing: no guaranteed GPUs, a share of what is free,
#: and neither CPU nor memory in the way.
NEW = {
    "gpu": {"quota": 0, "limit": -1, "overQuotaWeight": 1},
    "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
    "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
}
_KEYS = {"": "quota", "_limit": "limit", "_weight": "overQuotaWeight"}


class QueueOptions(TypedDict, total=False):
    """Options of `create_queue` and `Queue.set`. All may be left out.

    gpu, cpu, memory: guaranteed amounts (devices, cores, bytes or "64Gi"). *_limit: never more than
    this, or "unlimited". *_weight: the share of what others leave free. priority: higher goes first
    for what is free (new queues: 100).

    >>> options: kai_ray.QueueOptions = {"gpu": 4, "gpu_limit": 8}
    >>> kai.create_queue("robots", **options).gpu.limit
    8.0
    """

    parent: str | None
    display_name: str | None
    priority: int | None
    gpu: float | str | None
    gpu_limit: float | str | None
    gpu_weight: float | None
    cpu: float | str | None
    cpu_limit: float | str | None
    cpu_weight: float | None
    memory: float | str | None
    memory_limit: float | str | None
    memory_weight: float | None


class Queue:
    """A queue of the cluster. What it says of itself is asked for when it is read.

    >>> vision = kai.queue("vision")
    >>> vision.parent, vision.gpu.quota, vision.state
    ('research', 8.0, 'Active')
    """

    def __init__(self, client: Client, name: str, last: queue_list.Queue | None = None) -> None:
        self.client = client
        self.name = name
        self._last = last

    @told
    def look(self) -> queue_list.Queue:
        """One look at the cluster; the properties below make one each. Raises NotFound.

        >>> kai.queue("vision").look().priority
        100
        """
        try:
            obj = self.client.port.get(R.QUEUE, self.name)
        except Gone as error:
            raise NotFound(
                f"queue {self.name!r} does not exist",
                command="kai get queues",
                python="queues() lists them",
            ) from error
        self._last = queue_list.queue(obj)
        return self._last

    @property
    def parent(self) -> str:
        """The queue above it; empty for a top-level queue.

        >>> kai.queue("vision").parent
        'research'
        """
        return self.look().parent

    @property
    def priority(self) -> int:
        """Higher goes first for what is free.

        >>> kai.queue("vision").priority
        100
        """
        return self.look().priority

    @property
    def state(self) -> str:
        """Active, Paused, Draining or Drained.

        >>> kai.queue("vision").state
        'Active'
        """
        return self.look().state

    @property
    def gpu(self) -> Amount:
        """Its GPUs, in devices: quota, limit, weight, allocated, requested, fair_share, pending,
        borrowed; -1 is unlimited.

        >>> kai.queue("vision").gpu.limit
        -1.0
        """
        return self.look().gpu

    @property
    def cpu(self) -> Amount:
        """The same of CPUs, in thousandths of a core.

        >>> kai.queue("vision").cpu.quota
        -1.0
        """
        return self.look().cpu

    @property
    def memory(self) -> Amount:
        """The same of memory, in MB (10^6 bytes).

        >>> kai.queue("vision").memory.quota
        -1.0
        """
        return self.look().memory

    def jobs(self, status: str | None = None) -> JobList:
        """The jobs in it, of all namespaces.

        >>> kai.queue("robots").jobs()
        no jobs
        """
        return self.client.jobs(queue=self.name, status=status, all_namespaces=True)

    @told
    def set(self, **options: Unpack[QueueOptions]) -> Queue:
        """Changes what is named; the rest stays.

        >>> kai.queue("robots").set(gpu=6, gpu_limit="unlimited").gpu.quota
        6.0
        """
        spec = queue_spec(dict(options), {})
        if not spec:
            raise InvalidManifest("nothing to change", python="name an option, such as gpu=12")
        for key, field in (("parent", "parentQueue"), ("display_name", "displayName")):
            if options.get(key) == "":
                spec[field] = None
        return self._patch({"spec": spec})

    def pause(self) -> Queue:
        """Starts nothing new in it and those below it; what runs goes on.

        >>> kai.queue("robots").pause().state
        'Paused'
        """
        return self._note({L.QUEUE_PAUSED: "true"})

    def drain(self, deadline: str | timedelta = "0s") -> Queue:
        """Empties it: nothing new starts, and what still runs at the deadline is evicted.

        >>> kai.queue("robots").drain(deadline="30m").state
        'Draining'
        """
        seconds = (
            deadline.total_seconds()
            if isinstance(deadline, timedelta)
            else parse_duration(deadline)
        )
        if seconds is None or seconds < 0:
            raise InvalidManifest(f"deadline={deadline!r} is no duration of 0s or more, as '30m'")
        until = rfc3339(self.client.pace.clock.now() + seconds)
        return self._note({L.QUEUE_PAUSED: "true", L.DRAIN_DEADLINE: until, L.DRAINED: None})

    def resume(self) -> Queue:
        """Lets it start jobs again.

        >>> kai.queue("robots").resume().state
        'Active'
        """
        return self._note(dict.fromkeys((L.QUEUE_PAUSED, L.DRAIN_DEADLINE, L.DRAINED)))

    @told
    def delete(self) -> None:
        """Deletes it. Raises Conflict while it has jobs or queues below it.

        >>> kai.queue("robots").delete()
        """
        delete_queue(self.client.port, self.name)

    def _note(self, annotations: dict[str, str | None]) -> Queue:
        return self._patch({"metadata": {"annotations": annotations}})

    @told
    def _patch(self, patch: Object) -> Queue:
        self.look()
        self._last = queue_list.queue(self.client.port.patch(R.QUEUE, self.name, patch))
        return self

    def _cells(self) -> tuple[str, ...]:
        return cells(self._last or self.look())

    def __repr__(self) -> str:
        if self._last is None:
            return f"Queue({self.name})"
        gpu = self._last.gpu
        used, quota = html.amount(gpu.allocated), html.amount(gpu.quota)
        return f"Queue({self.name}: {used} GPUs allocated, quota {quota}, {self._last.state})"

    def _repr_html_(self) -> str:
        return html.table(COLUMNS, [cells(self.look())])


class QueueList(list[Queue]):
    """Queues, parents before children; a table where it is shown.

    >>> [queue.name for queue in kai.queues()][:2]
    ['default-parent-queue', 'default-queue']
    """

    def __repr__(self) -> str:
        return html.text(COLUMNS, [q._cells() for q in self]) if self else "no queues"

    def _repr_html_(self) -> str:
        return html.table(COLUMNS, [q._cells() for q in self])


def cells(queue: queue_list.Queue) -> tuple[str, ...]:
    gpu = queue.gpu
    share = "" if gpu.fair_share is None else html.amount(gpu.fair_share)
    amounts = (gpu.quota, gpu.allocated, gpu.borrowed, gpu.pending)
    quota, allocated, borrowed, pending = map(html.amount, amounts)
    return (queue.name, queue.parent, quota, allocated, share, borrowed, pending, queue.state)


def queue_spec(options: dict[str, Any], defaults: dict[str, dict[str, Any]]) -> Object:
    """`spec` of the options that were given, over `defaults` per resource.

    Raises InvalidManifest for an amount that makes no sense, TypeError for an unknown option.
    """
    spec: Object = {}
    resources = {resource: dict(values) for resource, values in defaults.items()}
    for option, value in options.items():
        if option not in QueueOptions.__annotations__:
            raise TypeError(f"a queue has no option {option!r}")
        if value is None:
            continue
        resource, _, rest = option.partition("_")
        if resource in RESOURCES:
            key = _KEYS[f"_{rest}" if rest else ""]
            resources.setdefault(resource, {})[key] = _amount(option, resource, key, value)
        else:
            spec[{"parent": "parentQueue", "display_name": "displayName"}.get(option, option)] = (
                value
            )
    if resources:
        spec["resources"] = resources
    return spec


def _amount(option: str, resource: str, key: str, value: Any) -> float | int:
    """An amount in the Queue's units: devices, thousandths of a core, MB; -1 is unlimited."""
    if value in (UNLIMITED, -1) and key != "overQuotaWeight":
        return -1
    try:
        exact = float(quantity.parse(value if isinstance(value, str) else repr(value)))
    except (ValueError, TypeError) as error:
        raise InvalidManifest(
            f"{option}={value!r} is no amount", why=str(error), python='a number, or "unlimited"'
        ) from error
    if not 0 <= exact <= LARGEST:
        raise InvalidManifest(f"{option}={value!r}: give 0 or more", python='or "unlimited"')
    if key != "overQuotaWeight":
        exact *= {"gpu": 1, "cpu": 1000, "memory": 1e-6}[resource]
    return int(exact) if exact == int(exact) else exact


def delete_queue(port: Port, name: str, also: frozenset[str] = frozenset(), **how: Any) -> None:
    """Deletes a queue that nobody needs; queues in `also` are about to go too."""
    check_deletable(port, name, also)
    try:
        port.delete(R.QUEUE, name, **how)
    except Gone as error:
        raise NotFound(f"queue {name!r} does not exist", command="kai get queues") from error


def check_deletable(port: Port, name: str, also: frozenset[str] = frozenset()) -> None:
    """Raises Conflict while a queue has jobs, or queues below it that are not in `also`."""
    below = sorted(
        {q["metadata"]["name"] for q in port.list(R.QUEUE).items if queue_list.parent_of(q) == name}
        - also
    )
    if below:
        raise Conflict(
            f"queue {name!r} has queues below it: {', '.join(below)}",
            command=f"kai queue delete {' '.join(below)}",
        )
    using = sum((g.get("spec") or {}).get("queue") == name for g in port.list(R.POD_GROUP).items)
    if using:
        raise Conflict(
            f"queue {name!r} has {using} jobs",
            why="they would wait for ever",
            command=f"kai get jobs -A --queue {name}",
        )

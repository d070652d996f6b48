"""A job that is in the cluster: how it stands, why, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from kai_ray.cluster.port import Conflict as Taken
from kai_ray.cluster.port import NotFound as Gone
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.suspension import is_suspended
from kai_ray.podgrouper.outcome import outcome
from kai_ray.sdk import html
from kai_ray.sdk.errors import JobDeleted, WaitTimeout
from kai_ray.sdk.finding import Found
from kai_ray.sdk.looks import Change, Look, change_of
from kai_ray.sdk.patience import Patience, seconds
from kai_ray.sdk.status import Status
from kai_ray.sdk.telling import told

if TYPE_CHECKING:
    from kai_ray.sdk.aio import AsyncJob
    from kai_ray.sdk.client import Client
    from kai_ray.sdk.explaining import Explanation
    from kai_ray.sdk.forecast import Eta
    from kai_ray.sdk.happenings import EventList
    from kai_ray.sdk.waiting import Until

COLUMNS = ("NAME", "KIND", "QUEUE", "GPUS", "READY", "STATUS", "REASON", "POS")


class Job:
    """A job in the cluster. What it says of itself is asked for when it is read.

    >>> job = kai.submit(kai_ray.BatchJob("train", image="busybox", gpus=2), queue="vision")
    >>> job.wait(until="started").status
    <Status.RUNNING: 'Running'>
    >>> job.queue, job.gpus, len(job.nodes)
    ('vision', 2.0, 1)
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        last: Look | None = None,
    ) -> None:
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self._last = last

    # ------------------------------------------------------------------ how it stands

    @property
    def kind(self) -> str:
        """The kind of its object.

        >>> kai.job("train").kind
        'Job'
        """
        return self.resource.kind

    @property
    def ref(self) -> str:
        """`kind/name`, as commands take it.

        >>> kai.job("train").ref
        'job/train'
        """
        return f"{self.kind.lower()}/{self.name}"

    @told
    def look(self) -> Look:
        """One look at the cluster; the properties below make one each.

        >>> kai.job("train").look().status.value
        'Running'
        """
        self._last = self._look()
        return self._last

    def _look(self) -> Look:
        port = self.client.port
        try:
            obj = port.get(self.resource, self.name, self.namespace)
        except Gone:
            obj = None
        if obj is None or (self.uid and obj["metadata"].get("uid", "") != self.uid):
            last = self._last.object if self._last else {"metadata": {"name": self.name}}
            return Look(Status.DELETED, None, last)
        mine = (self.resource.api_version, self.kind, self.name)
        rows = self.client.rows.read(self.namespace)
        row = next((r for r in rows if (r.api_version, r.kind, r.name) == mine), None)
        if row is not None:
            return Look(Status(row.status), row, obj)
        if ended := outcome(obj):
            return Look(Status(ended), None, obj)
        away = is_suspended(self.resource, obj)
        return Look(Status.SUSPENDED if away else Status.SUBMITTED, None, obj)

    @property
    def status(self) -> Status:
        """Where it stands now.

        >>> kai.job("train").status == "Running"
        True
        """
        return self.look().status

    @property
    def reason(self) -> str:
        """For what it waits, as one typed word; empty where it does not.

        >>> kai.job("train").reason
        ''
        """
        row = self.look().row
        return row.reason if row else ""

    @property
    def message(self) -> str:
        """The same in a sentence; `explain` says more.

        >>> kai.job("train").message
        ''
        """
        row = self.look().row
        return row.message if row else ""

    @property
    def position(self) -> int | None:
        """Its place among those that wait in its queue, from 1; None where it does not wait.

        >>> kai.job("train").position
        """
        row = self.look().row
        return row.position if row else None

    @property
    def queue(self) -> str:
        """The queue it is in; empty while it has no gang.

        >>> kai.job("train").queue
        'vision'
        """
        row = self.look().row
        return row.queue if row else ""

    @property
    def gpus(self) -> float:
        """GPUs that it holds or asks for, parts included.

        >>> kai.job("train").gpus
        2.0
        """
        row = self.look().row
        return row.gpus if row else 0.0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes on which it has places.

        >>> kai.job("train").nodes
        ('gpu-0',)
        """
        row = self.look().row
        return row.nodes if row else ()

    @property
    def pods(self) -> tuple[int, int]:
        """(running, wanted) pods.

        >>> kai.job("train").pods
        (1, 1)
        """
        row = self.look().row
        return (row.running, row.wanted) if row else (0, 0)

    @property
    def standing(self) -> str:
        """How it stood at the last look, in words; asks nothing of the cluster.

        >>> kai.job("train").standing
        'not looked at yet'
        """
        if self._last is None:
            return "not looked at yet"
        row = self._last.row
        reason = f" ({row.reason})" if row and row.reason and self._last.status.queued else ""
        return f"{self._last.status}{reason}"

    @property
    def manifest(self) -> Object:
        """Its object as the cluster has it now: a copy, free to be changed.

        >>> kai.job("train").manifest["kind"]
        'Job'
        """
        import copy

        return copy.deepcopy(self._found().object)

    @told
    def explain(self) -> Explanation:
        """Why it waits and what would help, as `kai explain` says it.

        The decision is made again here; reading nodes, queues and pods of all namespaces must be
        allowed.

        >>> kai.job("train").explain().status
        'Running'
        """
        from kai_ray.sdk.explaining import explain

        return explain(self.client.port, self._found(), self.client.pace.clock)

    @property
    def eta(self) -> Eta | None:
        """When it starts at the latest; None where it does not wait, or nobody knows.

        It is known when pods that leave for it have a deadline, and when jobs in its way have one
        (`activeDeadlineSeconds`, or their queue's maximum run time).

        >>> kai.job("train").eta
        """
        from kai_ray.sdk.forecast import eta

        return told(eta)(self.client.port, self._found(), self.client.pace.clock)

    @told
    def events(self) -> EventList:
        """What Kubernetes has noted about it, its gangs and its pods, the oldest first.

        >>> any(event.reason == "Scheduled" for event in kai.job("train").events())
        True
        """
        from kai_ray.sdk.happenings import events

        return events(self.client.port, self._found())

    # ------------------------------------------------------------------ waiting

    def wait(
        self,
        timeout: float | timedelta | None = None,
        until: Until | None = None,
        *,
        progress: bool | None = None,
        failing: bool = True,
    ) -> Job:
        """Returns the job when it has ended ("started": when it runs; "decided": when there is a
        place or a reason for it). What runs until it is deleted is waited for until it runs.

        `timeout` in seconds. `progress`: bars; None shows them where a person is watching. Raises
        WaitTimeout, JobDeleted, and JobFailed unless `failing` is False.

        >>> kai.job("train").wait(timeout=60).status
        <Status.SUCCEEDED: 'Succeeded'>
        """
        self.client.wait([self], timeout, until, progress=progress, failing=failing)
        return self

    def changes(self, timeout: float | timedelta | None = None) -> Iterator[Change]:
        """Each change of status, reason or place, from how it stands now until it has ended.

        What happens between two looks (0.3 s apart, or more on a slow server) is not seen.

        >>> job = kai.submit(kai_ray.BatchJob("brief", image="busybox", gpus=1), queue="vision")
        >>> for change in job.changes(timeout=60):
        ...     last = change
        >>> last.status.value
        'Succeeded'
        """
        pace = self.client.pace
        limit, patience = seconds(timeout), Patience()
        began = pace.now()
        before: Change | None = None
        while True:
            found = patience.look(self)
            now = change_of(found) if found else before
            if now is not None and now != before:
                before = now
                yield now
            if now is not None and now.status.ended:
                return
            if limit is not None and pace.now() - began >= limit:
                raise WaitTimeout(
                    f"{self.ref} did not end within {limit:g} s", why=f"it is {self.standing}"
                )
            pace.sleep(self.client.rows.pause_s)

    # ------------------------------------------------------------------ what can be done with it

    @told
    def suspend(self, *, wait: bool = True, timeout: float = 600.0) -> Job:
        """Stops it and gives its GPUs back, by the means of its kind. Raises CannotSuspend.

        `wait`: returns when its pods have ended, which may take their grace period.

        >>> job = kai.submit(kai_ray.BatchJob("night", image="busybox", gpus=1), queue="vision")
        >>> job.suspend().status
        <Status.SUSPENDED: 'Suspended'>
        """
        self._switch(True)
        if wait:
            self._until(Status.SUSPENDED, timeout, "is not suspended")
        return self

    @told
    def resume(self) -> Job:
        """Puts it back into its queue.

        >>> kai.job("night").resume().wait().status
        <Status.SUCCEEDED: 'Succeeded'>
        """
        return self._switch(False)

    def _switch(self, on: bool) -> Job:
        from kai_ray.sdk.switching import switch

        switch(self.client.port, self._found(), on)
        self.client.rows.forget()
        return self

    @told
    def delete(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Deletes it with all that belongs to it; nothing happens if it is gone already.

        `wait`: returns when the object is gone. Raises WaitTimeout.

        >>> job = kai.submit(kai_ray.BatchJob("oops", image="busybox", gpus=1), queue="vision")
        >>> job.delete()
        >>> job.status
        <Status.DELETED: 'Deleted'>
        """
        try:
            self.client.port.delete(self.resource, self.name, self.namespace, uid=self.uid)
        except (Gone, Taken):
            if self.look().status is not Status.DELETED:  # else it, or its name, is gone already
                raise
        self.client.rows.forget()
        if wait:
            self._until(Status.DELETED, timeout, "is still there")

    def _until(self, wanted: Status, timeout: float, words: str) -> None:
        client = self.client
        began = client.pace.now()
        while (status := self.look().status) not in (wanted, Status.DELETED):
            if wanted is Status.SUSPENDED and status.ended:
                return  # it has ended by itself meanwhile
            if client.pace.now() - began >= timeout:
                raise WaitTimeout(
                    f"{self.ref} {words} after {timeout:g} s",
                    why="a finalizer or a grace period holds it",
                    command=f"kai describe job {self.ref} -n {self.namespace}",
                )
            client.pace.sleep(client.rows.pause_s)

    # ------------------------------------------------------------------

    @property
    def aio(self) -> AsyncJob:
        """Its twin for `async` programs: the same names, to be awaited.

        >>> import asyncio
        >>> job = kai.submit(kai_ray.BatchJob("twin", image="busybox", gpus=1), queue="vision")
        >>> asyncio.run(job.aio.wait())
        AsyncJob(job/twin in default: Succeeded)
        """
        from kai_ray.sdk.aio import AsyncJob

        return AsyncJob(self)

    def _found(self) -> Found:
        found = self.look()
        if found.status is Status.DELETED:
            raise JobDeleted(f"{self.ref} is gone", command=f"kai get jobs -n {self.namespace}")
        return Found(self.resource, self.namespace, self.name, found.object, found.row)

    def _cells(self) -> tuple[str, ...]:
        """Its line in a table, of the last look."""
        last = self._last
        row = last.row if last else None
        return (
            self.name,
            self.kind,
            row.queue if row else "",
            html.amount(row.gpus) if last and row and not last.status.ended else "",
            f"{row.running}/{row.wanted}" if row else "",
            str(last.status) if last else "",
            row.reason if row else "",
            str(row.position) if row and row.position else "",
        )

    def __repr__(self) -> str:
        last = f": {self._last.status}" if self._last else ""
        return f"Job({self.ref} in {self.namespace}{last})"

    def _repr_html_(self) -> str:
        self.look()
        return html.table(COLUMNS, [self._cells()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return (id(self.client), self.resource, self.namespace, self.name, self.uid)


class JobList(list[Job]):
    """Jobs; a table where it is shown.

    >>> print(kai.jobs(status="Running"))
    no jobs
    """

    def __repr__(self) -> str:
        return html.text(COLUMNS, [job._cells() for job in self]) if self else "no jobs"

    def _repr_html_(self) -> str:
        return html.table(COLUMNS, [job._cells() for job in self])

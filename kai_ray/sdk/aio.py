"""The same for `async` programs: every call runs beside the event loop, waiting costs no thread.

>>> import asyncio
>>> async def pipeline():
...     async with kai_ray.aio.connect(cluster) as kai:
...         job = await kai.submit(kai_ray.BatchJob("async", image="busybox"), queue="vision")
...         return await (await job.wait(timeout=60)).status()
>>> asyncio.run(pipeline())
<Status.SUCCEEDED: 'Succeeded'>
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar, Unpack

from kai_ray.cluster.port import Port
from kai_ray.sdk import client as sync
from kai_ray.sdk.client import Client, DryRun
from kai_ray.sdk.explaining import Explanation
from kai_ray.sdk.forecast import Eta
from kai_ray.sdk.happenings import EventList
from kai_ray.sdk.job import Job
from kai_ray.sdk.objects import Submittable
from kai_ray.sdk.pace import EmbeddedPace
from kai_ray.sdk.progress import watched
from kai_ray.sdk.queue import Queue, QueueList, QueueOptions
from kai_ray.sdk.scheduling import Scheduling
from kai_ray.sdk.status import Status
from kai_ray.sdk.waiting import Until, Wait

if TYPE_CHECKING:
    from kai_ray.sim.embedded import EmbeddedCluster

P = ParamSpec("P")
T = TypeVar("T")
Seconds = float | timedelta | None


def connect(
    cluster: Port | EmbeddedCluster | None = None,
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> AsyncClient:
    """As `kai_ray.connect`, for `async with`.

    >>> import asyncio
    >>> asyncio.run(kai_ray.aio.connect(cluster).close())
    """
    found = sync.connect(cluster, kubeconfig=kubeconfig, context=context, namespace=namespace)
    return AsyncClient(found)


class AsyncClient:
    """`Client`, with methods to be awaited.

    >>> import asyncio
    >>> asyncio.run(kai.aio.queue("vision")).name
    'vision'
    """

    def __init__(self, client: Client) -> None:
        self.sync = client

    async def submit(
        self,
        what: Submittable,
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: DryRun = "none",
        **options: Unpack[Scheduling],
    ) -> AsyncJob:
        """As `Client.submit`.

        >>> import asyncio
        >>> asyncio.run(kai.aio.submit(kai_ray.BatchJob("a1", image="busybox"), queue="vision"))
        AsyncJob(job/a1 in default)
        """
        job = await _beside(
            self.sync,
            lambda: self.sync.submit(
                what, namespace=namespace, force=force, dry_run=dry_run, **options
            ),
        )
        return AsyncJob(job)

    async def submit_all(
        self,
        what: Submittable,
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: DryRun = "none",
        **options: Unpack[Scheduling],
    ) -> list[AsyncJob]:
        """As `Client.submit_all`.

        >>> import asyncio
        >>> two = [kai_ray.BatchJob(f"b{n}", image="busybox") for n in range(2)]
        >>> asyncio.run(kai.aio.submit_all(two, queue="vision"))
        [AsyncJob(job/b0 in default), AsyncJob(job/b1 in default)]
        """
        jobs = await _beside(
            self.sync,
            lambda: self.sync.submit_all(
                what, namespace=namespace, force=force, dry_run=dry_run, **options
            ),
        )
        return [AsyncJob(job) for job in jobs]

    async def job(self, name: str, *, namespace: str | None = None) -> AsyncJob:
        """As `Client.job`.

        >>> import asyncio
        >>> asyncio.run(kai.aio.job("a1"))
        AsyncJob(job/a1 in default)
        """
        return AsyncJob(await _beside(self.sync, lambda: self.sync.job(name, namespace=namespace)))

    async def jobs(
        self,
        queue: str | None = None,
        status: str | None = None,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> list[AsyncJob]:
        """As `Client.jobs`.

        >>> import asyncio
        >>> len(asyncio.run(kai.aio.jobs(queue="vision"))) > 0
        True
        """
        found = await _beside(
            self.sync,
            lambda: self.sync.jobs(
                queue, status, namespace=namespace, all_namespaces=all_namespaces
            ),
        )
        return [AsyncJob(job) for job in found]

    async def wait(
        self,
        jobs: Sequence[AsyncJob],
        timeout: Seconds = None,
        until: Until | None = None,
        *,
        progress: bool | None = False,
        failing: bool = True,
    ) -> list[AsyncJob]:
        """As `Client.wait`. Cancelling it ends the waiting; the jobs go on.

        >>> import asyncio
        >>> job = kai.job("a1").aio
        >>> asyncio.run(kai.aio.wait([job]))
        [AsyncJob(job/a1 in default: Succeeded)]
        """
        bars = watched(progress)
        try:
            wait = Wait([job.sync for job in jobs], until, timeout, bars, failing=failing)
            while not await _beside(self.sync, wait.look):
                await self.sync.pace.sleep_async(wait.pause_s)
        finally:
            bars.close()
        return list(jobs)

    async def as_ended(
        self, jobs: Sequence[AsyncJob], timeout: Seconds = None
    ) -> AsyncIterator[AsyncJob]:
        """As `Client.as_ended`, for `async for`.

        >>> import asyncio
        >>> async def names():
        ...     jobs = [kai.job("b0").aio, kai.job("b1").aio]
        ...     return sorted([job.name async for job in kai.aio.as_ended(jobs)])
        >>> asyncio.run(names())
        ['b0', 'b1']
        """
        wait = Wait([job.sync for job in jobs], "ended", timeout, watched(False), failing=False)
        told_of, over = 0, False
        while not over:
            over = await _beside(self.sync, wait.look)
            for job in wait.done[told_of:]:
                yield AsyncJob(job)
            told_of = len(wait.done)
            if not over:
                await self.sync.pace.sleep_async(wait.pause_s)

    async def queue(self, name: str) -> Queue:
        """As `Client.queue`.

        >>> import asyncio
        >>> asyncio.run(kai.aio.queue("vision")).name
        'vision'
        """
        return await _beside(self.sync, lambda: self.sync.queue(name))

    async def queues(self) -> QueueList:
        """As `Client.queues`.

        >>> import asyncio
        >>> len(asyncio.run(kai.aio.queues())) > 2
        True
        """
        return await _beside(self.sync, self.sync.queues)

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """As `Client.create_queue`.

        >>> import asyncio
        >>> asyncio.run(kai.aio.create_queue("async", gpu=1)).gpu.quota
        1.0
        >>> kai.queue("async").delete()
        """
        return await _beside(self.sync, lambda: self.sync.create_queue(name, **options))

    async def close(self) -> None:
        """As `Client.close`.

        >>> import asyncio
        >>> asyncio.run(kai_ray.aio.connect(cluster).close())
        """
        self.sync.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.sync.close()


class AsyncJob:
    """`Job`, with methods to be awaited; `sync` is the job itself.

    >>> import asyncio
    >>> asyncio.run(kai.job("a1").aio.status()).value
    'Succeeded'
    """

    def __init__(self, job: Job) -> None:
        self.sync = job
        self.name = job.name
        self.namespace = job.namespace
        self.kind = job.kind

    async def status(self) -> Status:
        """As `Job.status`.

        >>> import asyncio
        >>> asyncio.run(kai.job("a1").aio.status()).ended
        True
        """
        return await self._beside(lambda: self.sync.status)

    async def eta(self) -> Eta | None:
        """As `Job.eta`.

        >>> import asyncio
        >>> asyncio.run(kai.job("a1").aio.eta())
        """
        return await self._beside(lambda: self.sync.eta)

    async def explain(self) -> Explanation:
        """As `Job.explain`.

        >>> import asyncio
        >>> asyncio.run(kai.job("a1").aio.explain()).name
        'a1'
        """
        return await self._beside(self.sync.explain)

    async def events(self) -> EventList:
        """As `Job.events`.

        >>> import asyncio
        >>> len(asyncio.run(kai.job("a1").aio.events())) > 0
        True
        """
        return await self._beside(self.sync.events)

    async def wait(
        self,
        timeout: Seconds = None,
        until: Until | None = None,
        *,
        progress: bool | None = False,
        failing: bool = True,
    ) -> AsyncJob:
        """As `Job.wait`. Cancelling it ends the waiting; the job goes on.

        >>> import asyncio
        >>> asyncio.run(kai.job("a1").aio.wait(timeout=60))
        AsyncJob(job/a1 in default: Succeeded)
        """
        client = AsyncClient(self.sync.client)
        await client.wait([self], timeout, until, progress=progress, failing=failing)
        return self

    async def suspend(self, *, wait: bool = True, timeout: float = 600.0) -> AsyncJob:
        """As `Job.suspend`.

        >>> import asyncio
        >>> job = kai.submit(kai_ray.BatchJob("a2", image="busybox"), queue="vision").aio
        >>> asyncio.run(job.suspend())
        AsyncJob(job/a2 in default: Suspended)
        """
        await self._beside(lambda: self.sync.suspend(wait=wait, timeout=timeout))
        return self

    async def resume(self) -> AsyncJob:
        """As `Job.resume`.

        >>> import asyncio
        >>> job = asyncio.run(kai.job("a2").aio.resume())
        """
        await self._beside(self.sync.resume)
        return self

    async def delete(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """As `Job.delete`.

        >>> import asyncio
        >>> asyncio.run(kai.job("a2").aio.delete())
        """
        await self._beside(lambda: self.sync.delete(wait=wait, timeout=timeout))

    async def _beside(self, call: Callable[[], T]) -> T:
        return await _beside(self.sync.client, call)

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"


async def _beside(client: Client, call: Callable[[], T]) -> T:
    """Runs a call in a thread; a cluster in virtual time is run by whoever asks, so here."""
    if isinstance(client.pace, EmbeddedPace):
        return call()
    return await asyncio.to_thread(call)

"""The door of the SDK: a cluster, and what a program wants of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import AlreadyExists, Port
from kai_ray.sdk import applying, clusters, rewriting, scheduling
from kai_ray.sdk.errors import Conflict, InvalidManifest, NotFound
from kai_ray.sdk.finding import find
from kai_ray.sdk.job import Job, JobList
from kai_ray.sdk.looks import Look
from kai_ray.sdk.pace import EmbeddedPace, Pace, RealPace
from kai_ray.sdk.progress import Progress, watched
from kai_ray.sdk.queue import NEW, Queue, QueueList, QueueOptions, queue_spec
from kai_ray.sdk.rows import Rows
from kai_ray.sdk.scheduling import Scheduling, Topology
from kai_ray.sdk.status import Status
from kai_ray.sdk.telling import told
from kai_ray.sdk.waiting import Until, Wait
from kai_ray.sight import queue_list

if TYPE_CHECKING:
    from kai_ray.sdk.aio import AsyncClient
    from kai_ray.sdk.objects import Submittable
    from kai_ray.sim.embedded import EmbeddedCluster

DryRun = Literal["none", "client", "server"]


@told
def connect(
    cluster: Port | EmbeddedCluster | None = None,
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Client:
    """A cluster to work with: the one that is given, or found as `kai` finds it.

    Looked for in this order: `kubeconfig`, `$KAI_KUBECONFIG`, `$KUBECONFIG`, the running `kai up`,
    `~/.kube/config`, the service account of the pod this runs in. The server is not asked yet.
    `namespace`: where names are looked for and jobs go; by default the kubeconfig's. Raises
    NoCluster.

    >>> with kai_ray.connect(cluster) as kai:
    ...     print(kai.queue("vision").state)
    Active
    """
    if cluster is None:
        choice = clusters.choose(str(kubeconfig) if kubeconfig else None)
        port = clusters.open_port(choice, context)
        return Client(port, namespace or port.namespace, RealPace(), choice.origin, port.close)
    if hasattr(cluster, "run_for"):  # an embedded cluster, on the machine's clock or its own
        embedded: Any = cluster
        virtual = hasattr(embedded.clock, "advance_to")
        pace = EmbeddedPace(embedded) if virtual else RealPace()
        return Client(embedded.client, namespace or "default", pace, "this process")
    found: Any = cluster
    space = namespace or getattr(found, "namespace", None) or "default"
    return Client(found, space, RealPace(), "the given port")


class Client:
    """A cluster. Made by `connect`; `close` it when done, or use it in a `with` block.

    Safe from any thread. Every method raises errors of this package (`KaiError`).

    >>> job = kai.submit(kai_ray.BatchJob("hello", image="busybox", gpus=1), queue="vision")
    >>> job.wait().status
    <Status.SUCCEEDED: 'Succeeded'>
    """

    def __init__(
        self, port: Any, namespace: str, pace: Pace, origin: str, closing: Any = None
    ) -> None:
        self.port = port
        self.namespace = namespace
        self.origin = origin
        self.pace = pace
        self.rows = Rows(port, pace)
        self._closing = closing

    # ------------------------------------------------------------------ submitting

    def submit(
        self,
        what: Submittable,
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: DryRun = "none",
        **options: Unpack[Scheduling],
    ) -> Job:
        """Submits one job, with what its manifests bring beside it (a ConfigMap, a runtime, ...).

        `what`: a manifest as a dict, a file, a folder, YAML text, a helper of this package
        (`RayJob`, ...), or an object of KubeRay's or Kubeflow's Python client. The options are
        those of `Scheduling`. Submitting a changed manifest again changes the job. `force` takes
        over fields that others have set; `dry_run` "server" lets the API server check it only.

        Raises InvalidManifest, Unserved, Conflict, Denied, Unreachable.

        >>> job = kai.submit(
        ...     kai_ray.RayJob("tune", "python tune.py", workers=2, gpus=4),
        ...     queue="vision", priority="train")
        >>> job.wait(timeout=600).status
        <Status.SUCCEEDED: 'Succeeded'>
        """
        jobs = self._submit(what, namespace, force, dry_run, dict(options))
        if len(jobs) == 1:
            return jobs[0]
        raise InvalidManifest(
            f"{len(jobs)} of these objects run pods, not one",
            python="submit_all(…) gives a list of jobs",
        )

    def submit_all(
        self,
        what: Submittable,
        *,
        namespace: str | None = None,
        force: bool = False,
        dry_run: DryRun = "none",
        **options: Unpack[Scheduling],
    ) -> JobList:
        """Submits any number of objects, as `submit` does; the jobs among them.

        >>> both = [kai_ray.BatchJob(f"part-{n}", image="busybox", gpus=1) for n in range(2)]
        >>> jobs = kai.submit_all(both, queue="vision")
        >>> [job.status.value for job in kai.wait(jobs)]
        ['Succeeded', 'Succeeded']
        """
        return self._submit(what, namespace, force, dry_run, dict(options))

    @told
    def _submit(
        self,
        what: Submittable,
        namespace: str | None,
        force: bool,
        dry_run: DryRun,
        options: dict[str, Any],
    ) -> JobList:
        from kai_ray.sdk.objects import manifests_of

        given = scheduling.checked(options)
        manifests = manifests_of(what)
        self._name_topology(given)
        # All are looked at before the first is sent.
        ready = [
            rewriting.with_options(m, given) if applying.runs_pods(m) else m for m in manifests
        ]
        space = namespace or self.namespace
        jobs = JobList()
        for obj in ready:
            done = applying.apply(self.port, space, obj, dry_run=dry_run, force=force)
            if not applying.runs_pods(obj):
                continue
            uid = ""
            if dry_run == "none":
                made = self.port.get(done.resource, done.name, done.namespace)
                uid = made["metadata"].get("uid", "")
            jobs.append(Job(self, done.resource, done.namespace, done.name, uid))
        self.rows.forget()
        return jobs

    def _name_topology(self, given: dict[str, Any]) -> None:
        """Finds the Topology where the user named only levels."""
        wanted: Topology | None = given.get("topology")
        if wanted is None or wanted.name or not wanted.levels:
            return
        fitting: list[str] = []
        levels: set[str] = set()
        for topology in self.port.list(R.TOPOLOGY).items:
            known = {
                name
                for level in (topology.get("spec") or {}).get("levels") or []
                for name in (level.get("nodeLabel"), level.get("alias"))
                if name
            }
            levels |= known
            if known.issuperset(wanted.levels):
                fitting.append(topology["metadata"]["name"])
        if len(fitting) != 1:
            found = (
                f"{len(fitting)} have: {', '.join(sorted(fitting))}"
                if fitting
                else (f"there is {', '.join(sorted(levels)) or 'no Topology'}")
            )
            raise InvalidManifest(
                f"no single Topology has the level {' and '.join(wanted.levels)}",
                why=found,
                python='topology=kai_ray.Topology("NAME", required=…)',
            )
        given["topology"] = replace(wanted, name=fitting[0])

    # ------------------------------------------------------------------ jobs

    @told
    def job(self, name: str, *, namespace: str | None = None) -> Job:
        """The job of that name, or of `kind/name` where two kinds share one.

        Raises NotFound, Ambiguous.

        >>> kai.job("hello").kind
        'Job'
        """
        found = find(self.port, namespace or self.namespace, name)
        uid = found.object["metadata"].get("uid", "")
        return Job(self, found.resource, found.namespace, found.name, uid)

    @told
    def jobs(
        self,
        queue: str | None = None,
        status: str | None = None,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> JobList:
        """The jobs of the namespace by name, those of a queue or with a status.

        >>> "hello" in [job.name for job in kai.jobs(queue="vision", status="Succeeded")]
        True
        """
        space = None if all_namespaces else namespace or self.namespace
        found = JobList()
        for row in self.rows.read(space):
            if row.resource is None or (queue is not None and row.queue != queue):
                continue
            if status is not None and row.status.lower() != status.lower():
                continue
            look = Look(Status(row.status), row, {})
            found.append(Job(self, row.resource, row.namespace, row.name, row.uid, look))
        return found

    @told
    def wait(
        self,
        jobs: Iterable[Job],
        timeout: float | timedelta | None = None,
        until: Until | None = None,
        *,
        progress: bool | Progress | None = None,
        failing: bool = True,
    ) -> JobList:
        """Waits for several jobs at once, as `Job.wait` does for one; a bar each on a terminal.

        >>> job = kai.submit(kai_ray.BatchJob("one", image="busybox", gpus=1), queue="vision")
        >>> kai.wait([job], timeout=60)[0].status
        <Status.SUCCEEDED: 'Succeeded'>
        """
        chosen = JobList(jobs)
        bars = watched(progress)
        try:
            wait = Wait(chosen, until, timeout, bars, failing=failing)
            while not wait.look():
                self.pace.sleep(wait.pause_s)
        finally:
            bars.close()
        return chosen

    @told
    def as_ended(
        self, jobs: Sequence[Job], timeout: float | timedelta | None = None
    ) -> Iterator[Job]:
        """Each job as soon as it has ended, whether it succeeded or not.

        >>> sweep = [kai_ray.BatchJob(f"seed-{n}", image="busybox", gpus=1) for n in range(3)]
        >>> jobs = kai.submit_all(sweep, queue="vision")
        >>> sorted(job.name for job in kai.as_ended(jobs))
        ['seed-0', 'seed-1', 'seed-2']
        """
        return self._as_ended(jobs, timeout)

    def _as_ended(self, jobs: Sequence[Job], timeout: float | timedelta | None) -> Iterator[Job]:
        wait = Wait(jobs, "ended", timeout, watched(False), failing=False)
        told_of = 0
        while True:
            over = wait.look()
            yield from wait.done[told_of:]
            told_of = len(wait.done)
            if over:
                return
            self.pace.sleep(wait.pause_s)

    # ------------------------------------------------------------------ queues

    @told
    def queue(self, name: str) -> Queue:
        """The queue of that name. Raises NotFound.

        >>> kai.queue("vision").gpu.quota
        8.0
        """
        found = Queue(self, name)
        found.look()
        return found

    @told
    def queues(self) -> QueueList:
        """All queues, parents before children.

        >>> print(kai.queues())
        NAME ...
        """
        return QueueList(Queue(self, row.name, row) for row in queue_list.read(self.port))

    @told
    def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """Makes a queue: no guaranteed GPUs and a share of what is free, where nothing is said.

        Raises Conflict if there is one of that name, NotFound if its parent does not exist.

        >>> kai.create_queue("audio", parent="research", gpu=2).gpu.quota
        2.0
        >>> kai.queue("audio").delete()
        """
        if parent := options.get("parent"):
            self.queue(parent)
        obj = {
            "apiVersion": R.QUEUE.api_version,
            "kind": R.QUEUE.kind,
            "metadata": {"name": name},
            "spec": queue_spec(dict(options), NEW),
        }
        try:
            self.port.create(R.QUEUE, obj)
        except AlreadyExists as error:
            raise Conflict(
                f"queue {name!r} exists already",
                command=f"kai queue set {name} …",
                python=f"queue({name!r}).set(…)",
            ) from error
        return self.queue(name)

    # ------------------------------------------------------------------

    @property
    def aio(self) -> AsyncClient:
        """Its twin for `async` programs: the same names, to be awaited.

        >>> import asyncio
        >>> [queue.name for queue in asyncio.run(kai.aio.queues())][-1]
        'vision'
        """
        from kai_ray.sdk.aio import AsyncClient

        return AsyncClient(self)

    def close(self) -> None:
        """Closes its connections; nothing in the cluster changes.

        >>> kai_ray.connect(cluster).close()
        """
        if self._closing is not None:
            self._closing()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client(namespace {self.namespace}, cluster of {self.origin})"


__all__ = ["Client", "NotFound", "connect"]

"""`kai demo`: real workloads on a small embedded cluster, from submission to a summary.

First the rules, one after the other: a queue takes back what it lent, a priority goes first, a job
moves to make room, pods share a card, a gang stays inside a rack. Then seven kinds of workload ask
for more GPUs than there are: some gangs wait, each with its reason. Everything goes the ways that
users' own work goes: the same manifests, the same API server, the same commands underneath.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from kai_ray.cli import acts, examples, output, up
from kai_ray.cli.connect import Connection
from kai_ray.cli.failures import Failure
from kai_ray.cli.story import EVICTIONS, SUMMARY, Story, brief, evictions
from kai_ray.cli.views import jobs as view
from kai_ray.sdk import manifests
from kai_ray.sdk.applying import apply, runs_pods
from kai_ray.sdk.clusters import Choice
from kai_ray.sight.jobs.listing import ENDED, Job, read

if TYPE_CHECKING:
    from kai_ray.cluster.rest import RestServer

LOOK_S = 0.25
#: Kinds that run until they are deleted: the demonstration is over while these still run.
SERVICES = ("RayCluster", "RayService", "Deployment", "StatefulSet")


@click.command("demo")
@click.option(
    "--manifests",
    "folder",
    metavar="DIR",
    help="Upstream samples to submit as well; the default is ../shared/manifests, if it is there.",
)
@click.option("--cluster", metavar="FILE", help="Another cluster than examples/cluster.yaml.")
@click.option("--timeout", type=float, default=120.0, show_default=True, metavar="SECONDS")
def demo(folder: str | None, cluster: str | None, timeout: float) -> None:
    """Run workloads on 4 nodes of 8 simulated GPUs and show who waits, why and for how long.

    Exit code 0 if every workload started, every job ended well and every service became ready.
    """
    own = examples.folder()
    samples = examples.samples(folder)
    config = up.configuration(None, cluster or str(own / "cluster.yaml"))
    from kai_ray.sim.embedded import EmbeddedCluster

    with EmbeddedCluster(config) as embedded, up.served(embedded) as server:
        embedded.start()
        pools = ", ".join(f"{p.count} nodes x {p.gpus} GPUs" for p in config.node_pools if p.gpus)
        click.echo(f"A cluster in this process: {pools}, served at {server.url}")
        with _connection(server) as connection:
            list(_submit(connection, [own / "queues.yaml"]))
            rules, seen = _play(connection, own)
            story = _watch(connection, own, samples, timeout)
    _tell_rules(rules, story, seen)
    _tell(story)
    _judge(story)


@contextmanager
def _connection(server: RestServer) -> Iterator[Connection]:
    from kai_ray.cluster.kube import KubePort

    port = KubePort(server.connection())
    try:
        yield Connection(port, "default", Choice("", "demo"))
    finally:
        port.close()


def _submit(connection: Connection, files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Applies every object; (kind, name) of each workload, as it is submitted."""
    for document in manifests.read([str(f) for f in files]) if files else ():
        submitted = apply(connection.port, connection.namespace, document.object)
        if runs_pods(document.object):
            yield submitted.resource.kind, submitted.name


def _play(connection: Connection, own: Path) -> tuple[Story, list[str]]:
    """The rules, one after the other: who was evicted, and what else was seen."""
    with _screen() as screen:

        def look(story: Story, jobs: list[Job], now_s: float) -> None:
            screen.show(jobs, story.look(jobs, now_s), now_s)

        return acts.play(connection, own / "rules", look, screen.say)


def _watch(connection: Connection, own: Path, samples: Sequence[Path], timeout_s: float) -> Story:
    """Submits, then looks until everything that ends has ended and the rest is ready."""
    click.echo("\nEverybody at once")
    begin = time.monotonic()
    story = Story()

    def look(screen: Screen) -> bool:
        now_s = time.monotonic() - begin
        jobs = [j for j in read(connection.port, None) if (j.kind, j.name) in story.submitted]
        screen.show(jobs, story.look(jobs, now_s), now_s)
        return story.settled(SERVICES)

    with _screen() as screen:
        for files, upstream in (([own / "workloads"], False), (samples, True)):
            for key in _submit(connection, files):
                story.submit(key, time.monotonic() - begin, upstream)
            look(screen)
        ours = sum(not late for _, late in story.submitted.values())
        more = len(story.submitted) - ours
        screen.say(
            f"       submitted {ours} workloads of examples/"
            + (f" and {more} upstream samples, unchanged" if more else "")
        )
        while not look(screen):
            if time.monotonic() - begin > timeout_s:
                screen.say(f"{timeout_s:5.1f}s  gave up waiting")
                break
            time.sleep(LOOK_S)
    return story


class Screen(Protocol):
    """Where the demonstration is shown."""

    def say(self, text: str) -> None: ...

    def show(self, jobs: Sequence[Job], news: Sequence[str], now_s: float) -> None: ...


class Lines:
    """For pipes and logs: a line for everything that happens."""

    def say(self, text: str) -> None:
        click.echo(text)

    def show(self, jobs: Sequence[Job], news: Sequence[str], now_s: float) -> None:
        for line in news:
            click.echo(line)


class LiveTable:
    """For terminals: a table that is redrawn, below the lines that scroll by."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def show(self, jobs: Sequence[Job], news: Sequence[str], now_s: float) -> None:
        from rich.text import Text

        for line in news:
            self.say(line)
        used = sum(j.gpus for j in jobs if j.status in ("Starting", "Running"))
        head = f"{now_s:5.1f}s  {output.number(used)} GPUs in use\n"
        rows = output.lines(view.COLUMNS, jobs, colour=output.use_colour())
        self._live.update(Text.from_ansi("\n" + head + "\n".join(rows)))


@contextmanager
def _screen() -> Iterator[Screen]:
    if not sys.stdout.isatty():
        yield Lines()
        return
    from rich.live import Live

    with Live(refresh_per_second=8, transient=True) as live:
        yield LiveTable(live)


def _tell_rules(rules: Story, crowd: Story, seen: Sequence[str]) -> None:
    """Who was evicted by which rule for whom, and how long it was away."""
    click.echo("\nEvicted, and back")
    gone = [*evictions(rules), *evictions(crowd)]
    for line in output.lines(EVICTIONS, gone, colour=output.use_colour()):
        click.echo(f"  {line}")
    click.echo("\nKept together")
    for sentence in seen:
        click.echo(f"  {sentence}")


def _tell(story: Story) -> None:
    """The summary: a line a workload, then who waited for what."""
    chapters = sorted(story.chapters.values(), key=lambda c: (c.upstream, c.started_s or 0.0))
    click.echo("\nSummary: everybody at once")
    for line in output.lines(SUMMARY, chapters, colour=output.use_colour()):
        click.echo(f"  {line}")
    for chapter in story.waited():
        click.echo(
            f"\n{chapter.job.kind} {chapter.job.name} waited {chapter.wait_s:.1f} s for a gang of "
            f"{chapter.gang}:\n  {brief(chapter.message) or chapter.waited_for}"
        )


def _judge(story: Story) -> None:
    """Raises Failure unless everything came to the end that it should."""
    bad = story.unsettled(SERVICES)
    if bad:
        raise Failure(f"not every workload came to its end: {', '.join(bad)}")
    if not story.waited():
        raise Failure("no gang had to wait: the cluster is larger than this demonstration expects")
    ended = sum(c.job.status in ENDED for c in story.chapters.values())
    ready = len(story.chapters) - ended
    click.echo(f"\n{ended} jobs ended, {ready} services are ready. Next: kai up")

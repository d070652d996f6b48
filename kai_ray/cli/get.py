"""`kai get`: tables of queues, jobs and nodes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from kai_ray.cli import connect, output
from kai_ray.cli.connect import Connection
from kai_ray.cli.failures import missing
from kai_ray.cli.lazy import LazyGroup
from kai_ray.cli.output import Column, output_option

watch_option = click.option(
    "-w", "--watch", is_flag=True, help="Go on and print rows that change, until Ctrl-C."
)
selector_option = click.option(
    "-l", "--selector", default="", metavar="SELECTOR", help="Labels to match: a=b,c!=d,e in (f,g)."
)

get = LazyGroup(
    "get",
    {},
    aliases={
        "queue": "queues",
        "q": "queues",
        "kq": "queues",
        "job": "jobs",
        "j": "jobs",
        "podgroups": "jobs",
        "pg": "jobs",
        "node": "nodes",
        "no": "nodes",
    },
    help="List queues, jobs or nodes.",
    no_args_is_help=True,
)


class Listing(NamedTuple):
    """What one `kai get` shows: how to read it, print it and name its rows."""

    kind: str
    read: Callable[[], Sequence[Any]]
    columns: Sequence[Column[Any]]
    name: Callable[[Any], str]  # "queue.scheduling.run.ai/a"
    key: Callable[[Any], str]  # what the user types
    document: Callable[[Any], Any]
    watched: Callable[[], Any]  # a kai_ray.cli.watch.Changes


def present(
    make: Callable[[Connection], Listing], names: Sequence[str], form: str, watch: bool
) -> None:
    """Prints a listing of the cluster that is meant, or of each of several contexts."""
    several = connect.contexts()
    if several:
        from kai_ray.cli import contexts

        contexts.show(make, several, names, form, watch)
    else:
        show(make(connect.open_connection()), names, form, watch)


def show(listing: Listing, names: Sequence[str], form: str, watch: bool) -> None:
    """Prints a listing; with `watch`, goes on until interrupted."""
    if watch:
        from kai_ray.cli import watch as watching

        watching.follow(listing, names, form)
        return
    rows = chosen(listing, listing.read(), names)
    if form in ("json", "yaml"):
        documents = [listing.document(r) for r in rows]
        whole = documents[0] if len(names) == 1 and len(documents) == 1 else None
        output.print_document(whole or output.object_list(documents), form)
    elif form == "name":
        for row in rows:
            click.echo(listing.name(row))
    elif not rows:
        click.echo(f"No {listing.kind}s found.", err=True)
    else:
        output.print_table(listing.columns, rows, wide=form == "wide")


def chosen(listing: Listing, rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The rows that the user named (all if none), in the user's order. Patterns may match none."""
    if not names:
        return list(rows)
    found: list[Any] = []
    for name in names:
        wanted = name.rpartition("/")[2]
        hits = [r for r in rows if fnmatch.fnmatchcase(listing.key(r), wanted)]
        if not hits and not any(c in wanted for c in "*?["):
            raise missing(listing.kind, wanted, next=f"kai get {listing.kind}s")
        found += [r for r in hits if r not in found]
    return found


@get.command("queues")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@output_option
@watch_option
@selector_option
@connect.connected
def queues(names: tuple[str, ...], output: str, watch: bool, selector: str) -> None:
    """List queues: quota, allocation, fair share and pending demand, in GPUs."""
    from kai_ray.cli.views import queues as view
    from kai_ray.cluster import resources as R
    from kai_ray.sight import queue_list

    def listing(connection: Connection) -> Listing:
        return Listing(
            "queue",
            lambda: queue_list.read(connection.port, labels=selector),
            view.COLUMNS,
            lambda q: f"queue.scheduling.run.ai/{q.name}",
            lambda q: q.name,
            lambda q: q.object,
            lambda: _changes(connection.port, (R.QUEUE,), None),
        )

    present(listing, names, output, watch)


@get.command("jobs")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("-q", "--queue", metavar="NAME", help="Those of one queue.")
@click.option("--status", metavar="STATUS", help="Those with that status, for example Waiting.")
@output_option
@watch_option
@selector_option
@connect.connected
def jobs(
    names: tuple[str, ...],
    all_namespaces: bool,
    queue: str | None,
    status: str | None,
    output: str,
    watch: bool,
    selector: str,
) -> None:
    """List jobs: every workload that has a gang, and those that are suspended."""
    from kai_ray.cli.views import jobs as view
    from kai_ray.cluster import resources as R
    from kai_ray.sight.jobs.listing import read

    def listing(connection: Connection) -> Listing:
        namespace = None if all_namespaces else connection.namespace
        return Listing(
            "job",
            lambda: [
                j
                for j in read(connection.port, namespace, labels=selector)
                if (queue is None or j.queue == queue)
                and (status is None or j.status.lower() == status.lower())
            ],
            view.WITH_NAMESPACE if all_namespaces else view.COLUMNS,
            lambda j: j.printed_name,
            lambda j: j.name,
            lambda j: j.document(),
            lambda: _changes(connection.port, (R.POD_GROUP, R.POD), namespace),
        )

    present(listing, names, output, watch)


@get.command("nodes")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--fold", is_flag=True, help="One line for equal nodes, named by ranges.")
@output_option
@watch_option
@selector_option
@connect.connected
def nodes(names: tuple[str, ...], fold: bool, output: str, watch: bool, selector: str) -> None:
    """List nodes: GPUs, how many are free, and whether the node takes work."""
    from kai_ray.cli.views import nodes as view
    from kai_ray.cluster import resources as R
    from kai_ray.sight import node_list

    def listing(connection: Connection) -> Listing:
        def read() -> Sequence[Any]:
            rows = node_list.read(connection.port, labels=selector)
            return node_list.fold(rows) if fold and output in ("table", "wide") else rows

        return Listing(
            "node",
            read,
            view.FOLDED if fold else view.COLUMNS,
            lambda n: f"node/{n.name}",
            lambda n: n.name,
            lambda n: n.object,
            lambda: _changes(connection.port, (R.NODE, R.POD), None),
        )

    present(listing, names, output, watch)


def _changes(port: Any, resources: Any, namespace: str | None) -> Any:
    from kai_ray.cli.watch import Changes

    return Changes(port, resources, namespace)

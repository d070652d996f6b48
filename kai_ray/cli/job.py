"""`kai job`: suspend, resume and delete jobs by the means of their own kind."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from kai_ray.cli import connect
from kai_ray.cli.dry_run import dry_run_option, tail
from kai_ray.cli.failures import CONFLICT, Failure
from kai_ray.cluster.port import NotFound
from kai_ray.sdk.finding import Found, find
from kai_ray.sdk.switching import switch

POLL_S = 0.3

names_argument = click.argument("names", nargs=-1, required=True, metavar="[KIND/]NAME...")


@click.group("job", no_args_is_help=True)
def job() -> None:
    """Suspend, resume and delete jobs.

    A job is named as `kai get jobs` lists it, or as KIND/NAME where two kinds share a name.
    """


@job.command("suspend")
@names_argument
@dry_run_option
@connect.connected
def suspend(names: tuple[str, ...], dry_run: str) -> None:
    """Stop jobs and give their GPUs back.

    By the suspend field of their kind; jobs of other kinds are evicted, and their pods wait until
    the job is resumed.
    """
    _switch(names, True, dry_run)


@job.command("resume")
@names_argument
@dry_run_option
@connect.connected
def resume(names: tuple[str, ...], dry_run: str) -> None:
    """Put suspended jobs back into their queue."""
    _switch(names, False, dry_run)


def _switch(names: Sequence[str], on: bool, dry_run: str) -> None:
    connection = connect.open_connection()
    for name in names:
        found = find(connection.port, connection.namespace, name)
        if switch(connection.port, found, on, dry_run):
            click.echo(f"{found} {'suspended' if on else 'resumed'}{tail(dry_run)}")
        else:
            click.echo(f"{found} {'is suspended already' if on else 'is not suspended'}")


@job.command("delete")
@names_argument
@click.option("--wait/--no-wait", default=False, help="Return when the objects are gone.")
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="SECONDS")
@dry_run_option
@connect.connected
def delete(names: tuple[str, ...], wait: bool, timeout: float, dry_run: str) -> None:
    """Delete jobs with all that belongs to them."""
    connection = connect.open_connection()
    port = connection.port
    gone: list[Found] = []
    for name in names:
        found = find(port, connection.namespace, name)
        if dry_run != "client":
            port.delete(found.resource, found.name, found.namespace, dry_run=dry_run == "server")
            gone.append(found)
        click.echo(f"{found} deleted{tail(dry_run)}")
    if not wait or dry_run != "none":
        return
    deadline = time.monotonic() + timeout
    for found in gone:
        while True:
            try:
                port.get(found.resource, found.name, found.namespace)
            except NotFound:
                break
            if time.monotonic() > deadline:
                raise Failure(
                    f"{found} is still there after {timeout:g} s",
                    why="a finalizer or a grace period holds it",
                    next=f"kai describe job {found.name}",
                    code=CONFLICT,
                )
            time.sleep(POLL_S)

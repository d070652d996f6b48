"""`kai submit`: apply manifests as they are, and wait for what they start."""

from __future__ import annotations

import copy

import click

from kai_ray.api import labels as L
from kai_ray.cli import connect
from kai_ray.cli.dry_run import dry_run_option, tail
from kai_ray.cli.failures import Failure, from_api, from_sdk
from kai_ray.cluster.port import ApiError
from kai_ray.sdk import manifests
from kai_ray.sdk.applying import Submitted, apply, runs_pods
from kai_ray.sdk.errors import KaiError


@click.command("submit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-q", "--queue", metavar="NAME", help="Label the workloads with this queue.")
@click.option(
    "--wait",
    type=click.Choice(["started", "finished"]),
    is_flag=False,
    flag_value="started",
    help="Return when every workload has started (the default), or finished.",
)
@click.option("--timeout", type=float, default=600.0, show_default=True, metavar="SECONDS")
@click.option("--force", is_flag=True, help="Take over fields that others have set.")
@dry_run_option
@connect.connected
def submit(
    files: tuple[str, ...],
    queue: str | None,
    wait: str | None,
    timeout: float,
    force: bool,
    dry_run: str,
) -> None:
    """Submit manifests as they are: files, folders, or - for standard input.

    Objects are applied on the server's side, so a second submit of a changed file changes the
    object. Objects with metadata.generateName are created anew each time.
    """
    documents = manifests.read(files)
    connection = connect.open_connection()
    connection.port.on_warning(lambda text: click.echo(f"warning: {text}", err=True))
    done: list[Submitted] = []
    failures: list[Failure] = []
    for document in documents:
        obj = document.object
        if queue and runs_pods(obj):
            obj = copy.deepcopy(obj)
            obj["metadata"].setdefault("labels", {})[L.QUEUE] = queue
        try:
            submitted = apply(
                connection.port, connection.namespace, obj, dry_run=dry_run, force=force
            )
        except (ApiError, KaiError) as error:  # the others may still go in
            failures.append(from_api(error) if isinstance(error, ApiError) else from_sdk(error))
            continue
        click.echo(f"{submitted} {submitted.verb}{tail(dry_run)}")
        if runs_pods(obj):
            done.append(submitted)
    _report(failures, len(documents))
    if wait and dry_run == "none" and done:
        from kai_ray.cli.waiting import wait_for

        wait_for(connection, done, finished=wait == "finished", timeout_s=timeout)


def _report(failures: list[Failure], tried: int) -> None:
    """Raises the failure, or one that sums up several after each has been told."""
    if not failures:
        return
    if len(failures) == 1:
        raise failures[0]
    for failure in failures:
        failure.show()
    raise Failure(
        f"{len(failures)} of {tried} objects were not submitted", code=failures[0].exit_code
    )

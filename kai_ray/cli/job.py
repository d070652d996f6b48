"""`kai job`: suspend, resume and delete jobs by the means of their own kind."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from kai_ray.api import labels as L
from kai_ray.cli import connect
from kai_ray.cli.dry_run import dry_run_option, tail
from kai_ray.cli.failures import CONFLICT, Failure
from kai_ray.cli.find import Found, find
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object, Port
from kai_ray.cluster.suspension import annotation_patch, is_suspended, suspend_patch

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
        found = find(connection, name)
        if on and found.resource is R.POD and found.object["spec"].get("nodeName"):
            raise Failure(
                f"{found} cannot be suspended",
                why="nobody makes a bare pod again once it has left its node",
                next=f"kai job delete {found.name}",
            )
        already = is_suspended(found.resource, found.object) is on
        if on and not already:
            _refuse_what_its_operator_refuses(found)
        word = "suspended" if on else "resumed"
        if already:
            if on and dry_run != "client":
                _stay_suspended(connection.port, found, dry_run == "server")
            click.echo(f"{found} is {'suspended' if on else 'not suspended'} already")
            continue
        if dry_run != "client":
            _write(connection.port, found, on, dry_run == "server")
        click.echo(f"{found} {word}{tail(dry_run)}")


def _stay_suspended(port: Port, found: Found, dry_run: bool) -> None:
    """What the scheduler suspended for a moment now stays so, by its user's word."""
    if L.RESUME_AT in (found.object["metadata"].get("annotations") or {}):
        patch = {"metadata": {"annotations": {L.RESUME_AT: None}}}
        port.patch(found.resource, found.name, patch, found.namespace, dry_run=dry_run)


def _write(port: Port, found: Found, on: bool, dry_run: bool) -> None:
    """By the kind's own switch; by annotation where it has none or this version ignores it."""
    patch = suspend_patch(found.resource, on)
    marked = L.SUSPENDED in (found.object["metadata"].get("annotations") or {})
    if not on and marked:
        patch = {**patch, **annotation_patch(False)}
    where = (found.resource, found.name)
    answer = port.patch(*where, patch, found.namespace, dry_run=dry_run)
    if on and not is_suspended(found.resource, answer):
        port.patch(*where, annotation_patch(True), found.namespace, dry_run=dry_run)


def _refuse_what_its_operator_refuses(found: Found) -> None:
    """KubeRay fails a RayJob for good when it is suspended without these."""
    if found.resource is not R.RAY_JOB:
        return
    spec: Object = found.object.get("spec") or {}
    if spec.get("clusterSelector"):
        raise Failure(
            f"{found} cannot be suspended",
            why="it runs on an existing cluster (spec.clusterSelector)",
            next="suspend that RayCluster, or delete the job",
        )
    if not spec.get("shutdownAfterJobFinishes"):
        patch = '{"spec":{"shutdownAfterJobFinishes":true}}'
        raise Failure(
            f"{found} cannot be suspended",
            why="KubeRay suspends a RayJob only with spec.shutdownAfterJobFinishes: true",
            next=f"kubectl patch -n {found.namespace} {found} --type merge -p '{patch}'",
        )


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
        found = find(connection, name)
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

"""`kai queue`: create, change, pause, drain, resume and delete queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kai_ray.api import labels as L
from kai_ray.api import notify
from kai_ray.api.durations import parse_duration
from kai_ray.cli import connect, notifying
from kai_ray.cli.amounts import Amount, neat
from kai_ray.cli.dry_run import dry_run_option, tail
from kai_ray.cli.failures import CONFLICT, USAGE, Failure, missing
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import AlreadyExists, NotFound, Object
from kai_ray.sdk.queue import NEW, RESOURCES, check_deletable, delete_queue

F = TypeVar("F", bound=Callable[..., Any])


@click.group("queue", no_args_is_help=True)
def queue() -> None:
    """Create, change, pause, drain, resume and delete queues.

    Amounts: --gpu in devices (0.5 is half a GPU), --cpu in cores (8 or 500m), --memory with a unit
    (64Gi). `unlimited` lifts a quota or limit.
    """


def _amount_options(command: F) -> F:
    for resource in reversed(RESOURCES):
        for flag, key, words in (
            (f"--{resource}-weight", "overQuotaWeight", "Share of what others leave free."),
            (f"--{resource}-limit", "limit", "Never more than this."),
            (f"--{resource}", "quota", "Guaranteed amount."),
        ):
            kind = click.FloatRange(min=0) if key == "overQuotaWeight" else Amount(resource)
            command = click.option(flag, f"{resource}_{key}", type=kind, help=words)(command)
    return command


def _spec_options(command: F) -> F:
    command = _amount_options(command)
    command = click.option("--display-name", help="Name shown to people.")(command)
    return click.option(
        "--priority", type=int, help="Higher goes first for what is free. New queues have 100."
    )(command)


_NOTES = {
    "notify": L.NOTIFY,
    "notify_on": L.NOTIFY_ON,
    "notify_after": L.NOTIFY_AFTER,
    "idle_jobs": L.IDLE_JOBS,
    "protected_hours": L.PROTECTED_HOURS,
}


def _note_options(command: F) -> F:
    for flag, metavar, words in (
        ("--protected-hours", "HOURS", "When its build jobs may be idle: Mon-Fri 08:00-19:00."),
        ("--idle-jobs", "RULE", "Idle jobs: below 5% for 30m, suspend after 10m, enforce."),
        ("--notify-after", "DURATION", "What a long wait is; 30m, unless said."),
        ("--notify-on", "LIST", "Of what: started, waiting, evicted, idle, failed, ended."),
        ("--notify", "LIST", "Channels and addresses that are told of its jobs; none: nobody."),
    ):
        command = click.option(flag, metavar=metavar, help=words)(command)
    return command


def _notes(options: dict[str, Any], *, change: bool) -> dict[str, str | None]:
    """Annotations that the options stand for, taken out of them; '' removes one."""
    given = {key: options.pop(option) for option, key in _NOTES.items()}
    stated = {key: value for key, value in given.items() if value is not None}
    problem = next(notify.problems({key: value for key, value in stated.items() if value}), None)
    if problem is not None:
        raise Failure(str(problem), code=USAGE)
    return {key: value or None for key, value in stated.items() if value or change}


def _resources(amounts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`spec.resources` of the options that were given."""
    found: dict[str, dict[str, Any]] = {}
    for resource in RESOURCES:
        for key in ("quota", "limit", "overQuotaWeight"):
            value = amounts.get(f"{resource}_{key}")
            if value is not None:
                found.setdefault(resource, {})[key] = neat(value)
    return found


@queue.command("create")
@click.argument("name")
@click.option("--parent", default="", help="The queue above it; none makes a top-level queue.")
@_spec_options
@_note_options
@dry_run_option
@connect.connected
def create(
    name: str,
    parent: str,
    priority: int | None,
    display_name: str | None,
    dry_run: str,
    **amounts: Any,
) -> None:
    """Create a queue: `kai queue create vision --parent research --gpu 8 --gpu-limit 16`."""
    notes = _notes(amounts, change=False)
    given = _resources(amounts)
    spec: Object = {"resources": {r: NEW[r] | given.get(r, {}) for r in RESOURCES}}
    if parent:
        spec["parentQueue"] = parent
    if priority is not None:
        spec["priority"] = priority
    if display_name:
        spec["displayName"] = display_name
    obj = {
        "apiVersion": R.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name, **({"annotations": notes} if notes else {})},
        "spec": spec,
    }
    if dry_run != "client":
        port = connect.open_connection().port
        if parent:
            _get(port, parent)
        try:
            port.create(R.QUEUE, obj, dry_run=dry_run == "server")
        except AlreadyExists as error:
            raise Failure(
                f"queue {name!r} exists already", next=f"kai queue set {name} …", code=CONFLICT
            ) from error
    click.echo(f"queue/{name} created{tail(dry_run)}")
    notifying.remind(notes.get(L.NOTIFY))


@queue.command("set")
@click.argument("name")
@click.option("--parent", help="Move it below that queue; '' makes it a top-level queue.")
@_spec_options
@_note_options
@dry_run_option
@connect.connected
def change(
    name: str,
    parent: str | None,
    priority: int | None,
    display_name: str | None,
    dry_run: str,
    **amounts: Any,
) -> None:
    """Change a queue; what is not named stays: `kai queue set vision --gpu 12`."""
    notes = _notes(amounts, change=True)
    spec: Object = {}
    resources = _resources(amounts)
    if resources:
        spec["resources"] = resources
    if parent is not None:
        spec["parentQueue"] = parent or None
    if priority is not None:
        spec["priority"] = priority
    if display_name is not None:
        spec["displayName"] = display_name or None
    patch: Object = {"spec": spec} if spec else {}
    if notes:
        patch["metadata"] = {"annotations": notes}
    if not patch:
        raise click.UsageError("nothing to change: name at least one option, for example --gpu 12")
    _patch(name, patch, dry_run)
    click.echo(f"queue/{name} changed{tail(dry_run)}")
    notifying.remind(notes.get(L.NOTIFY))


@queue.command("pause")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@dry_run_option
@connect.connected
def pause(names: tuple[str, ...], dry_run: str) -> None:
    """Start nothing new in a queue and those below it; what runs goes on."""
    for name in names:
        _patch(name, {"metadata": {"annotations": {L.QUEUE_PAUSED: "true"}}}, dry_run)
        click.echo(f"queue/{name} paused{tail(dry_run)}")


@queue.command("drain")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--deadline",
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="How long what runs may go on, such as 30m.",
)
@dry_run_option
@connect.connected
def drain(names: tuple[str, ...], deadline: str, dry_run: str) -> None:
    """Empty a queue and those below it: nothing new starts, and what still runs at the deadline is
    evicted. It waits in the queue until `kai queue resume`."""
    wait_s = parse_duration(deadline)
    if wait_s is None or wait_s < 0:
        raise click.BadParameter(
            f"{deadline!r} is not a duration of 0s or more, such as 30m", param_hint="--deadline"
        )
    until = rfc3339(time.time() + wait_s)
    notes = {L.QUEUE_PAUSED: "true", L.DRAIN_DEADLINE: until, L.DRAINED: None}
    for name in names:
        _patch(name, {"metadata": {"annotations": notes}}, dry_run)
        click.echo(f"queue/{name} starts nothing new and is empty at {until}{tail(dry_run)}")


@queue.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@dry_run_option
@connect.connected
def resume(names: tuple[str, ...], dry_run: str) -> None:
    """Let a paused or drained queue start jobs again."""
    notes = dict.fromkeys((L.QUEUE_PAUSED, L.DRAIN_DEADLINE, L.DRAINED))
    for name in names:
        _patch(name, {"metadata": {"annotations": notes}}, dry_run)
        click.echo(f"queue/{name} resumed{tail(dry_run)}")


@queue.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@dry_run_option
@connect.connected
def delete(names: tuple[str, ...], dry_run: str) -> None:
    """Delete queues that have no queues below them and no jobs."""
    port = connect.open_connection().port
    for name in names:
        if dry_run == "client":
            check_deletable(port, name, frozenset(names))
        else:
            delete_queue(port, name, frozenset(names), dry_run=dry_run == "server")
        click.echo(f"queue/{name} deleted{tail(dry_run)}")


def _get(port: Any, name: str) -> Object:
    try:
        return port.get(R.QUEUE, name)
    except NotFound as error:
        raise missing("queue", name, next="kai get queues") from error


def _patch(name: str, patch: Object, dry_run: str) -> None:
    port = connect.open_connection().port
    _get(port, name)
    if dry_run != "client":
        port.patch(R.QUEUE, name, patch, dry_run=dry_run == "server")

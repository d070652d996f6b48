"""`kai history`: what the scheduler has written down, for other programs."""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from kai_ray.cli import history_file
from kai_ray.cli.failures import USAGE, Failure

_WHAT = ("jobs", "events", "spent", "queues", "nodes", "cluster")
#: Written as it happens; figures and sums come with the next sample.
_AT_ONCE = ("jobs", "events")
_history = click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The history file, or its folder; unless said, that of the running `kai up`.",
)


@click.group("history", no_args_is_help=True)
def history() -> None:
    """Export what the scheduler has written down: lives of jobs, figures, what was spent."""


@history.command("info")
@_history
def info(history: Path | None) -> None:
    """Say what the file holds: since when, how much, and what its readers should know."""
    from kai_ray.cluster.clock import rfc3339
    from kai_ray.history.file import HistoryError
    from kai_ray.history.reader import HistoryReader

    reader = HistoryReader(history_file.found(history))
    try:
        about = reader.about()
    except HistoryError as error:
        raise Failure(str(error)) from error
    since = rfc3339(about.first_s) if about.first_s is not None else "nothing yet"
    click.echo(f"file     {reader.path} (version {about.version})")
    click.echo(f"since    {since}")
    click.echo(f"until    {rfc3339(about.last_s)}")
    click.echo(f"size     {about.bytes / 1e6:.1f} MB")
    click.echo(f"records  {about.jobs} jobs, {about.events} events, {about.samples} samples")
    for at_s, text in about.notes[:20]:
        click.echo(f"note     {rfc3339(at_s)} {text}")


@history.command("export")
@click.argument("what", type=click.Choice(_WHAT))
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="7d, 36h or a date.")
@click.option("--until", default="", metavar="TIME", help="Likewise; now, unless said.")
@click.option("--step", default="", metavar="TIME", help="Of figures: means over this, as 1h.")
@click.option("--format", "form", type=click.Choice(("csv", "json")), default="csv")
@click.option("--output", "to", type=click.Path(path_type=Path), metavar="FILE", help="Not stdout.")
@_history
def export(
    what: str,
    since: str,
    until: str,
    step: str,
    form: str,
    to: Path | None,
    history: Path | None,
) -> None:
    """Write jobs, their events, hourly sums or sampled figures as CSV or JSON.

    Times are seconds since 1970. Figures of the last day are as fine as half a minute, those of a
    week five minutes, of a month one hour.
    """
    from kai_ray.history import export as exporting
    from kai_ray.history.file import HistoryError
    from kai_ray.history.reader import HistoryReader

    reader = HistoryReader(history_file.found(history))
    write = exporting.write_csv if form == "csv" else exporting.write_json
    try:
        window = _window(reader.about().last_s, since, until, step)
        if what in _AT_ONCE and not until:
            window = replace(window, until_s=math.inf)
        with _target(to) as target:
            write(exporting.WHAT[what](reader, window), target)
    except HistoryError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(f"cannot write {to}: {error.strerror}") from error


def _window(now_s: float, since: str, until: str, step: str):
    from kai_ray.api.durations import parse_duration
    from kai_ray.history.export import Window
    from kai_ray.report.window import WindowError, window

    try:
        first, last = window(since, until, now_s)
    except WindowError as error:
        raise Failure(str(error), code=USAGE) from error
    step_s = parse_duration(step) if step else None
    if step and (step_s is None or step_s <= 0):
        raise Failure(f"--step {step!r} is no time: write 5m or 1h", code=USAGE)
    return Window(first, last + 1.0, step_s)


def _target(to: Path | None) -> contextlib.AbstractContextManager[TextIO]:
    return to.open("w") if to is not None else contextlib.nullcontext(sys.stdout)

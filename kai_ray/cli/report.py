"""`kai report`: what jobs and queues had and what it cost, from the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kai_ray.cli import connect, history_file, pricing
from kai_ray.cli.failures import MISSING, USAGE, Failure

if TYPE_CHECKING:
    from kai_ray.history.reader import HistoryReader

FORMATS = ("table", "csv", "json", "html")

_OPTIONS = (
    pricing.option,
    click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print; html is a page of its own with plots.",
    ),
    click.option("--to", type=click.Path(path_type=Path), metavar="FILE", help="Write it there."),
    click.option(
        "--history",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The history file, or its folder; unless said, $KAI_HISTORY or that of `kai up`.",
    ),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group("report", no_args_is_help=True)
def report() -> None:
    """Report what jobs and queues had, used and cost."""


@report.command("job")
@click.argument("name")
@click.option("--kind", default="", metavar="KIND", help="RayJob, Job, ...: if names coincide.")
@_options
@connect.connected
def job(
    name: str, kind: str, price: str | None, form: str, to: Path | None, history: Path | None
) -> None:
    """Waits and their reasons, runs, evictions, GPU hours and cost of one job.

    The youngest job of that name, also one that is long gone.
    """
    from kai_ray.report import documents, job_page, job_text
    from kai_ray.report.job import NoSuchJob, find, job_report

    prices, reader = pricing.read(price), _reader(history)

    def made() -> str:
        now_s = reader.about().last_s
        try:
            row = find(reader, connect.namespace(), name, kind)
        except NoSuchJob as error:
            raise Failure(str(error), next="kai report usage", code=MISSING) from error
        found = job_report(reader, row, now_s, prices)
        if form == "json":
            return _json(documents.job_document(found))
        if form == "csv":
            return documents.job_csv(found)
        if form == "html":
            return job_page.job_page(found, now_s)
        return job_text.job_text(found)

    _print(made, to)


@report.command("usage")
@click.option(
    "--by",
    type=click.Choice(("queue", "user", "kind", "node-pool")),
    default="queue",
    show_default=True,
    help="What to sum up by.",
)
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="7d, 36h or a date.")
@click.option("--until", default="", metavar="TIME", help="Likewise; now, unless said.")
@_options
def usage(
    by: str,
    since: str,
    until: str,
    price: str | None,
    form: str,
    to: Path | None,
    history: Path | None,
) -> None:
    """GPU hours asked, held and used, waits, evictions and cost of a time."""
    from kai_ray.report import documents, usage_page, usage_text
    from kai_ray.report.usage import usage_report
    from kai_ray.report.window import WindowError, window

    prices, reader = pricing.read(price), _reader(history)

    def made() -> str:
        now_s = reader.about().last_s
        try:
            first_s, last_s = window(since, until, now_s)
        except WindowError as error:
            raise Failure(str(error), code=USAGE) from error
        found = usage_report(reader, by, first_s, last_s, prices)
        if form == "json":
            return _json(documents.usage_document(found))
        if form == "csv":
            return documents.usage_csv(found)
        if form == "html":
            return usage_page.usage_page(found, now_s)
        return usage_text.usage_text(found)

    _print(made, to)


def _reader(history: Path | None) -> HistoryReader:
    from kai_ray.history.reader import HistoryReader

    return HistoryReader(history_file.found(history))


def _print(made: Callable[[], str], to: Path | None) -> None:
    from kai_ray.history.file import HistoryError

    try:
        text = made()
    except HistoryError as error:
        raise Failure(str(error)) from error
    if to is None:
        click.echo(text, nl=False)
        return
    try:
        to.write_text(text)
    except OSError as error:
        raise Failure(f"cannot write {to}: {error.strerror}") from error
    click.echo(f"written to {to}")


def _json(document: Any) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

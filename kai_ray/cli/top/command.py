"""`kai top`: what it reads, and the plain form where nobody can press a key."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kai_ray.cli import connect, output
from kai_ray.cli.failures import Failure

if TYPE_CHECKING:
    from kai_ray.cli.top.picture import Picture
    from kai_ray.cli.top.tables import Cell


@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Print the tables and end.")
@connect.connected
def top(interval: float, once: bool) -> None:
    """Watch queues, jobs and nodes live, with the keyboard.

    Jobs of every namespace are shown, or those of `-n`. `?` lists the keys. Where the output is no
    terminal, the tables are printed once.
    """
    from kai_ray.cli.top import picture

    context = click.get_current_context()
    connection = connect.open_connection()
    namespace = context.meta.get("kai.namespace")

    def take() -> picture.Picture:
        return picture.read(connection.port, namespace, time.time())

    first = take()
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print(first)
        return
    from kai_ray.cli.top.reader import Reader
    from kai_ray.cli.top.screens import Key
    from kai_ray.cli.top.terminal import Top, wake_up

    def tell(about: Key) -> Sequence[str]:
        return described(context, about)

    wakes = os.pipe()
    os.set_blocking(wakes[1], False)
    reader = Reader(first, take, tell, lambda: wake_up(wakes[1]), interval)
    reader.start()
    try:
        head = connection.port.connection.context or connection.port.connection.server
        Top(reader, head, time.time, wakes, sys.stdout).run()
    finally:
        reader.stop()


def described(context: click.Context, about: tuple[str, str, str]) -> list[str]:
    """What `kai describe` says about an object, as lines."""
    from kai_ray.cli.describe import describe

    kind, namespace, name = about
    command = describe.get_command(context, kind if kind in ("queue", "node") else "job")
    assert command is not None and command.callback is not None
    said = io.StringIO()
    with contextlib.redirect_stdout(said), click.Context(command, parent=context) as inner:
        if namespace:
            inner.meta["kai.namespace"] = namespace
        try:
            inner.invoke(command.callback, name=kind if namespace else name)
        except Failure as error:
            return error.message.splitlines()
    return said.getvalue().splitlines()


def _print(picture: Picture) -> None:
    """All three tables, plain."""
    from kai_ray.cli.top import tables

    click.echo(tables.summary(picture))
    for kind in tables.KINDS:
        rows = [list(tables.TABLES[kind].titles)]
        rows += [[_plain(cell) for cell in row.cells] for row in tables.rows(picture, kind)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        click.echo()
        for row in rows:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            click.echo("   ".join(padded).rstrip())


def _plain(cell: Cell) -> str:
    """Bars in numbers."""
    if isinstance(cell, str):
        return cell or "-"
    return f"{output.number(cell.held)}/{output.number(cell.own)}"

"""`kai get ... --context a,b`: the same table of several clusters, read side by side.

Only looked at, never changed. One that does not answer within a few seconds is named on standard
error (in documents: under `unreachable`), and the others are shown; none at all is a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import click

from kai_ray.cli import connect, output
from kai_ray.cli.connect import Connection
from kai_ray.cli.failures import USAGE, Failure, from_api
from kai_ray.cli.get import Listing, chosen
from kai_ray.cli.output import Column
from kai_ray.cluster.port import ApiError

#: How long one cluster may keep the others waiting.
PATIENCE_S = 5.0
#: With `-w`, how often all are read.
EVERY_S = 2.0


class Seen(NamedTuple):
    """A row, where it is from, and the listing that knows what it means."""

    context: str
    listing: Listing
    row: Any


@dataclass
class Reader:
    """Reads the same listing of every context; `silent` says of which not, and why."""

    listings: dict[str, Listing]
    aloud: bool  # tells of each that falls silent
    silent: dict[str, str] = field(default_factory=dict[str, str])

    def read(self) -> list[Seen]:
        """Raises Failure if no cluster answers."""
        with ThreadPoolExecutor(len(self.listings)) as threads:
            answers = dict(
                zip(self.listings, threads.map(_rows, self.listings.values()), strict=True)
            )
        before = self.silent
        self.silent = {name: found for name, found in answers.items() if isinstance(found, str)}
        if len(self.silent) == len(self.listings):
            why = "; ".join(f"{name}: {text}" for name, text in self.silent.items())
            raise Failure("none of the contexts answers", why=why)
        for name, text in self.silent.items():
            if self.aloud and name not in before:
                click.echo(f"context {name} is not shown: {text}", err=True)
        return [
            Seen(name, self.listings[name], row)
            for name, found in answers.items()
            if not isinstance(found, str)
            for row in found
        ]


def _rows(listing: Listing) -> list[Any] | str:
    try:
        return list(listing.read())
    except ApiError as error:
        return from_api(error).message.replace("\n  ", "; ")


class _Pauses:
    """In place of watches: what has changed is seen by reading again."""

    def wait(self) -> None:
        time.sleep(EVERY_S)

    def close(self) -> None:
        return


def show(
    make: Callable[[Connection], Listing],
    contexts: Sequence[str],
    names: Sequence[str],
    form: str,
    watch: bool,
) -> None:
    if form == "name":
        raise Failure(
            "-o name is for one cluster: kubectl could not tell where a name is from",
            next="-o json, whose items say their context",
            code=USAGE,
        )
    listings = {name: make(connect.open_context(name, PATIENCE_S)) for name in contexts}
    reader = Reader(listings, aloud=form not in ("json", "yaml"))
    first = next(iter(reader.listings.values()))
    together = Listing(
        first.kind,
        reader.read,
        _columns(first.columns),
        lambda seen: f"{seen.context}/{seen.listing.name(seen.row)}",
        lambda seen: seen.listing.key(seen.row),
        lambda seen: {"context": seen.context, **seen.listing.document(seen.row)},
        _Pauses,
    )
    if watch:
        from kai_ray.cli import watch as watching

        watching.follow(together, names, form)
        return
    _print(together, reader, chosen(together, reader.read(), names), form)


def _print(together: Listing, reader: Reader, rows: Sequence[Seen], form: str) -> None:
    if form in ("json", "yaml"):
        document = output.object_list([together.document(row) for row in rows])
        away = [{"context": name, "message": text} for name, text in reader.silent.items()]
        output.print_document({**document, "unreachable": away}, form)
        return
    if rows:
        output.print_table(together.columns, rows, wide=form == "wide")
    else:
        click.echo(f"No {together.kind}s found.", err=True)


def _columns(columns: Sequence[Column[Any]]) -> list[Column[Any]]:
    def of_row(column: Column[Any]) -> Callable[[Seen], str]:
        return lambda seen: column.value(seen.row)

    context: Column[Seen] = Column("CONTEXT", lambda seen: seen.context)
    return [context, *(Column(c.title, of_row(c), c.wide) for c in columns)]

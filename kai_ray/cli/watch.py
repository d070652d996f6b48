"""`-w`: print a table, then every row that changes, as kubectl does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kai_ray.cli import output
from kai_ray.cluster.port import ApiError, Port, Resource, Unavailable, Watch

if TYPE_CHECKING:
    from kai_ray.cli.get import Listing

#: Changes come in bursts (a gang's pods start together): wait this long for the burst to end.
SETTLE_S = 0.2
#: A job's row also depends on its owner, which is not watched: look again at least so often.
LATEST_S = 5.0


class Changes:
    """Waits until an object of one of those kinds changes."""

    def __init__(self, port: Port, resources: Sequence[Resource], namespace: str | None) -> None:
        self._port = port
        self._resources = resources
        self._namespace = namespace
        self._signal = threading.Event()
        self._watches: dict[Resource, Watch] = {}

    def wait(self) -> None:
        """Returns after the next burst of changes, or after LATEST_S."""
        self._open()
        deadline = time.monotonic() + LATEST_S
        while not self._drain() and time.monotonic() < deadline:
            self._signal.wait(min(LATEST_S, 0.5))
            self._signal.clear()
        time.sleep(SETTLE_S)
        self._drain()

    def _open(self) -> None:
        for resource in self._resources:
            if resource not in self._watches:
                page = self._port.list(resource, self._namespace_of(resource), limit=1)
                self._watches[resource] = self._port.watch(
                    resource,
                    self._namespace_of(resource),
                    resource_version=page.resource_version,
                    on_event=self._signal.set,
                )

    def _namespace_of(self, resource: Resource) -> str | None:
        return self._namespace if resource.namespaced else None

    def _drain(self) -> bool:
        changed = False
        for resource, watch in list(self._watches.items()):
            try:
                while watch.next(0.0) is not None:
                    changed = True
            except ApiError:  # the watch ended or was compacted: open it anew and look again
                del self._watches[resource]
                changed = True
        return changed

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()


def follow(listing: Listing, names: Sequence[str], form: str) -> None:
    """Prints the listing, then rows that are new or differ, until interrupted."""
    from kai_ray.cli.get import chosen

    changes = listing.watched()
    widths: list[int] = []
    seen: dict[str, str] = {}
    first = True
    try:
        while True:
            try:
                rows = chosen(listing, listing.read(), names if first else [])
            except Unavailable:
                if first:
                    raise
                changes.wait()
                continue
            if names and not first:
                rows = [r for r in rows if listing.name(r) in seen]
            fresh = [r for r in rows if seen.get(listing.name(r)) != _fingerprint(listing, r)]
            seen = {listing.name(r): _fingerprint(listing, r) for r in rows}
            _print(listing, fresh, form, not widths, widths)
            first = False
            changes.wait()
    finally:
        changes.close()


def _fingerprint(listing: Listing, row: object) -> str:
    """What a row shows, without its age."""
    return "\0".join(c.value(row) for c in listing.columns if c.title != "AGE")


def _print(
    listing: Listing, rows: Sequence[object], form: str, header: bool, widths: list[int]
) -> None:
    """Prints rows; the header of a table comes with its first row, which sets the widths."""
    if form in ("json", "yaml"):
        for row in rows:
            document = listing.document(row)
            if form == "json":
                click.echo(json.dumps(document, ensure_ascii=False))
            else:
                click.echo("---\n" + output.to_yaml(document), nl=False)
    elif form == "name":
        for row in rows:
            click.echo(listing.name(row))
    elif rows:
        for line in output.lines(
            listing.columns,
            rows,
            wide=form == "wide",
            header=header,
            widths=widths,
            colour=output.use_colour(),
        ):
            click.echo(line)

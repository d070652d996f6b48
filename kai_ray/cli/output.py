"""Tables and documents: what `-o` means.

A table has NAME first and AGE last, no colour when it is piped, and columns that keep their places.
`json` and `yaml` give whole objects, `name` gives `resource/name` lines that kubectl takes back.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

Row = TypeVar("Row")

FORMATS = ("table", "wide", "json", "yaml", "name")

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="How to print.",
)

COLOURS = {
    "Running": "green",
    "Ready": "green",
    "Succeeded": "cyan",
    "Waiting": "yellow",
    "Starting": "yellow",
    "Paused": "yellow",
    "Suspended": "yellow",
    "Degraded": "magenta",
    "NotReady": "red",
    "Failed": "red",
}


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table; `wide` ones are shown with `-o wide` only."""

    title: str
    value: Callable[[Row], str]
    wide: bool = False


def lines(
    columns: Sequence[Column[Any]],
    rows: Iterable[Any],
    *,
    wide: bool = False,
    header: bool = True,
    widths: list[int] | None = None,
    colour: bool = False,
) -> list[str]:
    """The table as lines. `widths` is read as a minimum and updated, for tables that go on."""
    shown = [c for c in columns if wide or not c.wide]
    cells = [[harmless(c.value(row)) or "-" for c in shown] for row in rows]
    if header:
        cells.insert(0, [c.title for c in shown])
    needed = [max((len(r[i]) for r in cells), default=0) for i in range(len(shown))]
    if widths is not None:
        needed = [max(a, b) for a, b in zip(needed, widths or needed, strict=True)]
        widths[:] = needed
    out: list[str] = []
    for number, row in enumerate(cells):
        padded = [text.ljust(width) for text, width in zip(row, needed, strict=True)]
        if colour and not (header and number == 0):
            padded = [_paint(text, cell) for text, cell in zip(padded, row, strict=True)]
        out.append("   ".join(padded).rstrip())
    return out


def harmless(text: str) -> str:
    """On one line, without characters that would move a terminal's cursor: users write messages."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _paint(padded: str, word: str) -> str:
    colour = COLOURS.get(word.split("(")[0])
    return click.style(padded, fg=colour) if colour else padded


def use_colour() -> bool:
    """Colour for a terminal, unless NO_COLOR or TERM=dumb asks for none."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def print_table(columns: Sequence[Column[Any]], rows: Sequence[Any], *, wide: bool = False) -> None:
    for line in lines(columns, rows, wide=wide, colour=use_colour()):
        click.echo(line)


def print_document(document: Any, form: str) -> None:
    """One JSON or YAML document on standard output."""
    if form == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    click.echo(to_yaml(document), nl=False)


def print_manifests(objects: Sequence[Any], form: str) -> None:
    """Kubernetes objects as kubectl takes them: YAML documents, a JSON list, or names."""
    if form == "name":
        for found in objects:
            click.echo(f"{found['kind'].lower()}/{found['metadata']['name']}")
    elif form == "json":
        print_document(object_list(objects), "json")
    else:
        click.echo("---\n".join(to_yaml(found) for found in objects), nl=False)


def to_yaml(document: Any) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(
        document, Dumper=dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )


def object_list(items: Sequence[Any]) -> dict[str, Any]:
    """Kubernetes' own envelope for several objects, as `kubectl get -o json` prints it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def age(timestamp: str | None, now_s: float | None = None) -> str:
    """How long ago, as kubectl writes it: 12s, 3m, 5m10s, 4h, 2d."""
    if not timestamp:
        return "-"
    from kai_ray.cluster.clock import epoch

    return duration((time.time() if now_s is None else now_s) - epoch(timestamp))


def duration(seconds: float) -> str:
    """Seconds in at most two units, coarser the longer it is."""
    s = max(0, int(seconds))
    if s < 120:
        return f"{s}s"
    minutes, hours, days = s // 60, s // 3600, s // 86400
    if minutes < 10:
        return f"{minutes}m{s % 60}s" if s % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def number(value: float | None) -> str:
    """A count or share without needless digits; -1 is unlimited."""
    if value is None:
        return "-"
    if value == -1:
        return "unlimited"
    return f"{value:.2f}".rstrip("0").rstrip(".")

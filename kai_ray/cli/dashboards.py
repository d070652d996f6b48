"""`kai dashboards`: what Grafana shows of the metrics, made from code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kai_ray.cli import output
from kai_ray.cli.failures import Failure, missing
from kai_ray.cli.output import Column

_PREFIX = "kai-ray-"


@click.command("dashboards")
@click.argument("name", required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write all of them there, for Grafana's provisioning.",
)
def dashboards(name: str | None, folder: Path | None) -> None:
    """List Grafana's dashboards, or print the one called NAME as Grafana imports it.

    The chart ships them, too (metrics.dashboards.enabled).
    """
    from kai_ray.metrics.dashboards import dashboards as made

    found = made()
    if folder is not None:
        _write(found, folder)
    elif name is not None:
        short = name.removeprefix(_PREFIX)
        if f"{_PREFIX}{short}" not in found:
            raise missing("dashboard", name, next="kai dashboards")
        click.echo(_text(found[f"{_PREFIX}{short}"]), nl=False)
    else:
        columns: list[Column[dict[str, Any]]] = [
            Column("NAME", lambda d: d["uid"].removeprefix(_PREFIX)),
            Column("PANELS", lambda d: str(len(d["panels"]))),
            Column("SHOWS", lambda d: d["description"]),
        ]
        output.print_table(columns, list(found.values()))


def _write(found: dict[str, dict[str, Any]], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, dashboard in found.items():
            (folder / f"{name}.json").write_text(_text(dashboard))
    except OSError as error:
        raise Failure(f"cannot write to {folder}: {error.strerror}") from error
    click.echo(f"wrote {len(found)} dashboards to {folder}")


def _text(dashboard: dict[str, Any]) -> str:
    return json.dumps(dashboard, indent=1) + "\n"

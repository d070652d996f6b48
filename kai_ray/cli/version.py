"""`kai version`: what runs here, and which cluster the other commands talk to."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import click

from kai_ray.cli import connect, output
from kai_ray.cli.failures import Failure
from kai_ray.cluster.port import ApiError


@click.command("version")
@click.option("--client", is_flag=True, help="Do not ask the cluster.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table"
)
@connect.connected
def version(client: bool, form: str) -> None:
    """Show versions and the cluster in use."""
    facts: dict[str, Any] = {
        "kai": metadata.version("kai-ray"),
        "python": platform.python_version(),
    }
    if not client:
        try:
            connection = connect.open_connection()
            facts["kubeconfig"] = connection.choice.origin
            facts["server"] = connection.port.connection.server
            facts["namespace"] = connection.namespace
            facts["kubernetes"] = connection.port.raw("GET", "/version").get(
                "gitVersion", "unknown"
            )
        except (Failure, ApiError) as error:
            facts["cluster"] = str(getattr(error, "message", error)).splitlines()[0]
    if form != "table":
        output.print_document(facts, form)
        return
    for name, value in facts.items():
        click.echo(f"{name + ':':12}{value}")

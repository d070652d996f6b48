"""`kai explain`: why a job waits and what would help."""

from __future__ import annotations

import click

from kai_ray.cli import connect, output
from kai_ray.sdk import explaining
from kai_ray.sdk.finding import find


@click.command("explain")
@click.argument("name", metavar="[KIND/]NAME")
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table"
)
@connect.connected
def explain(name: str, form: str) -> None:
    """Say why a job waits and what would help.

    The decision is made again here, on what the API server holds now; nothing is changed.
    """
    connection = connect.open_connection()
    found = find(connection.port, connection.namespace, name)
    explanation = explaining.explain(connection.port, found)
    if form != "table":
        output.print_document(explanation.document(), form)
        return
    click.echo(str(explanation))

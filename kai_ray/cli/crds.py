"""`kai crds`: the custom resource definitions, made from the types that the code itself uses."""

from __future__ import annotations

import click

from kai_ray.cli import output
from kai_ray.cli.failures import missing


@click.command("crds")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json", "name"]),
    default="yaml",
    show_default=True,
    help="How to print.",
)
def crds(names: tuple[str, ...], form: str) -> None:
    """Print custom resource definitions: `kai crds | kubectl apply --server-side -f -`.

    NAME is a plural such as `queues` or `queues.scheduling.run.ai`; without one all are printed.
    """
    from kai_ray.api import crd

    definitions = crd.crds()
    by_name = {d["metadata"]["name"]: d for d in definitions}
    chosen = definitions
    if names:
        chosen = []
        for name in names:
            hits = [d for full, d in by_name.items() if name in (full, full.partition(".")[0])]
            if not hits:
                raise missing("definition", name, next="kai crds -o name")
            chosen += hits
    output.print_manifests(chosen, form)

"""`kai rights`: what `kai run` may do, as RBAC objects."""

from __future__ import annotations

import click

from kai_ray.cli import output


@click.command("rights")
@click.option("--account", metavar="NAME", default="kai-ray", show_default=True)
@click.option("-n", "--namespace", metavar="NAME", default="kai-scheduler", show_default=True)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print.",
)
@click.option("--console", is_flag=True, help="With those of `kai run --console`.")
@click.option("--agent", is_flag=True, help="Those of `kai agent` instead.")
def rights(account: str, namespace: str, form: str, console: bool, agent: bool) -> None:
    """Print a service account with the rights of `kai run`: `kai rights | kubectl apply -f -`.

    Its namespace and kai-resource-reservation must exist. The chart brings the same rights.
    """
    from kai_ray.manager import agent_rights
    from kai_ray.manager import rights as made

    if agent:
        account = account if account != "kai-ray" else agent_rights.NAME
        output.print_manifests(agent_rights.manifests(account, namespace), form)
        return
    found = made.manifests(account, namespace, "kai-resource-reservation", console=console)
    output.print_manifests(found, form)

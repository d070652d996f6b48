"""`kai policies`: the admission policies, made from the rules that the code itself uses."""

from __future__ import annotations

import click

from kai_ray.cli import connect, output


@click.command("policies")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json", "name"]),
    default="yaml",
    show_default=True,
    help="How to print.",
)
@click.option("--scheduler-name", default="kai-scheduler", show_default=True, help="Our name.")
@click.option(
    "--detect", is_flag=True, help="Ask the cluster which version of each policy it serves."
)
@click.option(
    "--webhook",
    metavar="URL",
    help="Add the webhook configurations, for `kai run --webhook` reached there.",
)
@connect.connected
def policies(form: str, scheduler_name: str, detect: bool, webhook: str | None) -> None:
    """Print admission policies: `kai policies | kubectl apply --server-side -f -`.

    Pods of namespaces labelled kai.scheduler/managed=true become ours; what nobody could grant is
    refused. A server that serves no MutatingAdmissionPolicy (before Kubernetes 1.36) needs the
    webhook for the first: --detect leaves that policy out there.
    """
    from kai_ray.admission import policies as made
    from kai_ray.admission.webhooks import WebhookConfig, configurations

    version = made.MUTATING_VERSIONS[0]
    if detect:
        version = made.mutating_version(connect.open_connection().port)
    found = made.policies((scheduler_name,), version)
    if webhook:
        found += configurations(WebhookConfig({"url": webhook}, (scheduler_name,), not version))
    output.print_manifests(found, form)

"""`--dry-run`, which every command that changes something has."""

from __future__ import annotations

import click

dry_run_option = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    help="Change nothing: `client` asks nobody, `server` lets the API server check the change.",
)


def tail(dry_run: str) -> str:
    """What is said after a change that did not happen."""
    return "" if dry_run == "none" else f" ({dry_run} dry run)"

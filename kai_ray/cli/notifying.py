"""Where `kai up` and `kai run` learn of channels for notifications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_ray.api import notify
from kai_ray.cli import connect
from kai_ray.cli.failures import USAGE, Failure
from kai_ray.sdk import clusters
from kai_ray.sdk.errors import NoCluster

if TYPE_CHECKING:
    from kai_ray.sight.notify import NotifyConfig

option = click.option(
    "--notify",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Channels and hosts for notifications (docs/notifications.md).",
)


def configured(file: Path | None) -> NotifyConfig:
    """What the file says; without one, no channels and no trusted hosts."""
    from kai_ray.sight.notify import NotifyConfig, NotifyConfigError
    from kai_ray.sight.notify.config import load

    try:
        return load(file) if file is not None else NotifyConfig()
    except NotifyConfigError as error:
        raise Failure(str(error), code=USAGE) from error


def remind(targets: str | None) -> None:
    """Says of channels that only the scheduler's own file makes them known, unless they are."""
    named = [part.strip() for part in (targets or "").split(",")]
    channels = [name for name in named if name and "://" not in name and name != notify.NOBODY]
    known = _known_channels()
    missing = [name for name in channels if name not in (known or ())]
    if not missing:
        return
    what = f"channel{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    if known is None:
        text = f"note: {what} must be named in the `--notify FILE` of `kai up` or `kai run`"
    else:
        text = f"note: nobody is told yet: {what} must be named in the `--notify FILE` of `kai up`"
    click.echo(text, err=True)


def _known_channels() -> list[str] | None:
    """Those of the `kai up` that the command speaks to; None where only its scheduler knows."""
    note = clusters.running_cluster()
    if note is None or connect.given("context") is not None:
        return None
    try:
        meant = clusters.choose(connect.given("kubeconfig")).path == str(note["kubeconfig"])
    except NoCluster:
        return None
    return [str(name) for name in note["channels"]] if meant and "channels" in note else None

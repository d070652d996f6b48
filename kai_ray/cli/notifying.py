"""Where `kai up` and `kai run` learn of channels for notifications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kai_ray.cli.failures import USAGE, Failure

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

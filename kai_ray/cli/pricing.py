"""What a GPU hour costs, for reports: the option that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kai_ray.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from kai_ray.report.prices import Prices

option = click.option(
    "--price",
    metavar="FILE|NUMBER",
    help="Prices of a GPU hour: a file (docs/reports.md), or one number for all types.",
)


def read(text: str | None) -> Prices | None:
    """None where nothing was said. Raises Failure, naming what is wrong."""
    if text is None:
        return None
    from kai_ray.report.prices import PriceError, load

    try:
        return load(text)
    except PriceError as error:
        raise Failure(str(error), code=USAGE) from error

"""Amounts on the command line of a queue, in a user's units; stored in the Queue's own.

GPUs are devices, CPU is stored in millicores, memory in MB (10^6 bytes); -1 is unlimited.
"""

from __future__ import annotations

import click

from kai_ray.api import quantity

LARGEST = 2.0**60
UNLIMITED = ("unlimited", "none", "-1")


class Amount(click.ParamType):
    """A quota or limit of one resource."""

    name = "amount"

    def __init__(self, resource: str) -> None:
        self.resource = resource

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return {"gpu": "DEVICES", "cpu": "CORES", "memory": "BYTES"}[self.resource]

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        if text.lower() in UNLIMITED:
            return -1
        try:
            exact = float(quantity.parse(text))
        except ValueError as error:
            self.fail(f"{error}, or `unlimited`", param, ctx)
        if exact > LARGEST:
            self.fail(f"{text} is too large: the largest amount is {LARGEST:g}", param, ctx)
        if exact < 0:
            self.fail(f"{text} is negative: give 0 or more, or `unlimited`", param, ctx)
        if self.resource == "cpu":
            return exact * 1000
        if self.resource == "memory":
            if exact and text[-1].isdigit():
                self.fail(f"{text} has no unit: write for example 64Gi or 500M", param, ctx)
            return exact / 1e6
        return exact


def neat(value: float) -> float | int:
    """An integer where the number is one, so that it prints without a fraction."""
    return int(value) if value == int(value) else value

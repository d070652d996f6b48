"""A click group whose commands are imported only when they are called.

`kai get queues` must start at once, so a command's module (and what it imports) is loaded only for
that command. The one-line help stands in the table, so that `kai --help` imports nothing either.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click


class Lazy(NamedTuple):
    """Where a command lives: `module` relative to kai_ray.cli, and its line in the help."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """`table` maps names to commands; `aliases` maps further names to those."""

    def __init__(
        self,
        name: str,
        table: dict[str, Lazy],
        *,
        aliases: dict[str, str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(name=name, **settings)  # type: ignore[arg-type]
        self._table = table
        self._aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self._aliases.get(cmd_name, cmd_name)
        entry = self._table.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"kai_ray.cli.{entry.module}")
        return getattr(module, entry.attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return (command.name if command else name), command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._table:
            super().format_commands(ctx, formatter)
            return
        rows = [(name, entry.help) for name, entry in self._table.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

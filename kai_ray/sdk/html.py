"""Tables as notebooks show them, and as a terminal does."""

from __future__ import annotations

import html
from collections.abc import Sequence

_CELL = "text-align:left;padding:2px 10px 2px 0"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; every cell is text."""
    head = "".join(f'<th style="{_CELL}">{html.escape(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(v)}</td>' for v in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same in columns of characters."""
    lines = [list(columns), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def amount(value: float) -> str:
    """A number of GPUs without needless zeros; -1 is unlimited."""
    return "unlimited" if value == -1 else f"{value:g}"

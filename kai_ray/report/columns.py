"""Plain text in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """Heads and rows, one line each; `right`: which columns end at the same place."""
    cells = [list(heads), *([cell or "-" for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        parts = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return "   ".join(parts).rstrip()

    return "\n".join(line(row) for row in cells) + "\n"

"""The lines of a screen, as wide and as many as the terminal has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from kai_ray.cli.output import COLOURS, harmless
from kai_ray.cli.top import tables
from kai_ray.cli.top.picture import Picture
from kai_ray.cli.top.screens import Screen, State, cursor_of
from kai_ray.cli.top.tables import KINDS, TABLES, Bar, Cell, Row, Table

#: Lines that are no rows: head, tabs, titles, foot.
FRAME = 4
_BAR = 20
_BLOCKS = 16
_GAP = "  "
_HELP = """\
1 2 3        queues, jobs, nodes; Tab goes round
up down      move (also k j, Page up and down, Home and End, g G)
Enter        into: the jobs of a queue or on a node; everything about a job
d            everything about the selected row, as `kai describe` says it
Esc          back; first the filter goes
/            filter: rows that contain what is typed; Enter keeps it, Esc drops it
s            sort by the next of the table's orders
q            quit

Queues   GPUs held are filled, what is borrowed beyond the quota in yellow; | is the fair share
Nodes    a block for each GPU: held or free; colour says how well they are used, where it is known
"""


@dataclass(frozen=True)
class Look:
    """`plain`: the terminal cannot show more than ASCII."""

    width: int
    height: int
    plain: bool = False

    @property
    def rows(self) -> int:
        """How many rows of a table, or lines of a text, there is room for."""
        return max(1, self.height - FRAME)


def screen(
    state: State,
    picture: Picture,
    rows: Sequence[Row],
    text: Sequence[str],
    look: Look,
    *,
    head: str,
    problem: str = "",
) -> list[Text]:
    """Exactly `look.height` lines. `rows` or `text` is what the present screen shows."""
    now = state.screen
    lines = [_head(head, picture), _tabs(state)]
    if now.is_text:
        lines += [Text(), *_text(text, now, look)]
    else:
        lines += _table(now, rows, look)
    lines = lines[: look.height - 1]
    lines += [Text()] * (look.height - 1 - len(lines))
    lines.append(_foot(state, len(rows), problem))
    for line in lines:
        line.no_wrap = True
        line.truncate(look.width, overflow="crop")
    return lines


def help_lines() -> Sequence[str]:
    return _HELP.splitlines()


def _head(head: str, picture: Picture) -> Text:
    return Text.assemble(("kai top", "bold"), _GAP, (head, "cyan"), _GAP, tables.summary(picture))


def _tabs(state: State) -> Text:
    line = Text()
    for number, kind in enumerate(KINDS, 1):
        here = state.stack[0].kind == kind
        line.append(f" {number} {kind.capitalize()} ", "reverse" if here else "")
        line.append(" ")
    now = state.screen
    if len(state.stack) > 1 or now.is_text:
        line.append(f" {now.title}", "bold")
    if now.text and not state.typing:
        line.append(f"  /{now.text}", "yellow")
    return line


def _text(text: Sequence[str], now: Screen, look: Look) -> list[Text]:
    first = max(0, min(now.cursor, len(text) - look.rows))
    return [Text(harmless(line)) for line in text[first : first + look.rows]]


def _foot(state: State, count: int, problem: str) -> Text:
    now = state.screen
    if state.typing:
        return Text.assemble(("/", "yellow"), now.text, ("_", "blink"))
    if problem:
        return Text(harmless(problem), "bold red")
    if now.is_text:
        return Text("Esc back   up down   q quit", "dim")
    order = TABLES[now.kind].orders[now.order][0]
    words = f"{count} rows   Enter into   d describe   / filter   s sort: {order}   ? keys   q quit"
    return Text(words, "dim")


def _table(now: Screen, rows: Sequence[Row], look: Look) -> list[Text]:
    table = TABLES[now.kind]
    widths = _widths(table.titles, rows)
    titles: list[Cell] = list(table.titles)
    head = _line(titles, table, widths, look)
    head.stylize("bold underline")
    if not rows:
        return [head, Text(f"  nothing matches {now.text!r}" if now.text else "  none", "dim")]
    at = cursor_of(now, tables.keys(rows))
    first = _first(at, len(rows), look.rows)
    lines = [head]
    for number, row in enumerate(rows[first : first + look.rows], first):
        lines.append(_line(row.cells, table, widths, look, "reverse" if number == at else ""))
    return lines


def _first(at: int, count: int, room: int) -> int:
    """The first row shown: the selected one stays in the middle where it can."""
    return max(0, min(at - room // 2, count - room))


def _widths(titles: Sequence[str], rows: Sequence[Row]) -> list[int]:
    widths = [len(title) for title in titles]
    for row in rows:
        for i, cell in enumerate(row.cells):
            widths[i] = max(widths[i], _width(cell))
    return widths


def _width(cell: Cell) -> int:
    if isinstance(cell, str):
        return len(cell)
    return _BAR if not cell.blocks or cell.blocks > _BLOCKS else cell.blocks


def _line(
    cells: Sequence[Cell], table: Table, widths: Sequence[int], look: Look, style: str = ""
) -> Text:
    """`style` is for the text and the rest of the line; bars keep their colours."""
    line = Text()
    for cell, title, width in zip(cells, table.titles, widths, strict=True):
        if line:
            line.append(_GAP, style)
        if isinstance(cell, Bar):
            drawn = _blocks(cell, look) if 0 < cell.blocks <= _BLOCKS else _bar(cell, look)
            drawn.append(" " * (width - drawn.cell_len))
            line.append_text(drawn)
            continue
        colour = COLOURS.get(cell.split(",")[-1], "") if title in ("STATUS", "STATE") else ""
        text = cell.rjust(width) if title in table.right else cell.ljust(width)
        line.append(harmless(text), f"{colour} {style}".strip())
    if style:
        line.append(" " * max(0, look.width - line.cell_len), style)
    return line


def _bar(bar: Bar, look: Look) -> Text:
    full, empty, mark = ("#", ".", "|") if look.plain else ("█", "░", "┃")
    if bar.scale <= 0:
        return Text(empty * _BAR, "dim")
    unit = _BAR / bar.scale
    held, own = round(min(bar.held, bar.scale) * unit), round(min(bar.own, bar.scale) * unit)
    if bar.held > 0:
        held = max(1, held)
    drawn = Text()
    drawn.append(full * min(held, own), "green")
    drawn.append(full * max(0, held - own), "yellow")
    drawn.append(empty * max(0, own - held), "green dim")
    drawn.append(" " * (_BAR - drawn.cell_len))
    if bar.mark is not None and bar.mark > 0:
        at = min(_BAR - 1, round(min(bar.mark, bar.scale) * unit))
        before, after = drawn[:at], drawn[at + 1 :]
        drawn = Text.assemble(before, (mark, "bold"), after)
    return drawn


def _blocks(bar: Bar, look: Look) -> Text:
    full, part, empty = ("#", "+", ".") if look.plain else ("■", "◧", "□")
    whole = int(bar.held + 1e-6)
    some = 1 if bar.held - whole > 1e-6 and whole < bar.blocks else 0
    drawn = Text()
    drawn.append(full * whole, _of_use(bar.use))
    drawn.append(part * some, _of_use(bar.use))
    drawn.append(empty * (bar.blocks - whole - some), "dim")
    return drawn


def _of_use(use: float | None) -> str:
    if use is None:
        return "blue"
    return "green" if use >= 0.5 else "yellow" if use >= 0.05 else "red"

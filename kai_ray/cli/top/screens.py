"""What keys do: from one state to the next, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kai_ray.cli.top.tables import KINDS, TABLES, Kind

Key = tuple[str, str, str]
#: The filter and the text of a search are no longer than this.
_LONGEST = 100


@dataclass(frozen=True)
class Screen:
    """A table (`kind`), narrowed to a queue or a node; or a text about one object (`about`)."""

    kind: Kind
    queue: str = ""
    node: str = ""
    about: Key | None = None
    help: bool = False
    text: str = ""  # the filter
    order: int = 0
    selected: Key | None = None
    cursor: int = 0  # where the selected row was last; for texts, the first line shown

    @property
    def is_text(self) -> bool:
        return self.help or self.about is not None

    @property
    def title(self) -> str:
        if self.help:
            return "Keys"
        if self.about is not None:
            return " ".join(part for part in (self.about[0], self.about[1]) if part)
        of = f" of queue {self.queue}" if self.queue else f" on {self.node}" if self.node else ""
        return f"{self.kind.capitalize()}{of}"


@dataclass(frozen=True)
class State:
    """The screens gone through, the present one last. `typing`: keys go into the filter."""

    stack: tuple[Screen, ...] = field(default_factory=lambda: (Screen("queues"),))
    typing: bool = False
    over: bool = False

    @property
    def screen(self) -> Screen:
        return self.stack[-1]

    def on(self, screen: Screen) -> State:
        """The present screen replaced."""
        return replace(self, stack=(*self.stack[:-1], screen))

    def into(self, screen: Screen) -> State:
        """One further."""
        return replace(self, stack=(*self.stack, screen))


@dataclass(frozen=True)
class Around:
    """What there is to move in: the rows' keys (or how many lines), and how many are shown."""

    keys: Sequence[Key] = ()
    lines: int = 0
    height: int = 10


Move = Literal["up", "down", "pgup", "pgdn", "home", "end"]
_MOVES: dict[str, Move] = {
    "up": "up",
    "down": "down",
    "pgup": "pgup",
    "pgdn": "pgdn",
    "home": "home",
    "end": "end",
    "k": "up",
    "j": "down",
    " ": "pgdn",
    "g": "home",
    "G": "end",
}


def cursor_of(screen: Screen, keys: Sequence[Key]) -> int:
    """The row of the selected object; where it was, if it has gone."""
    if screen.selected is not None and screen.selected in keys:
        return keys.index(screen.selected)
    return max(0, min(screen.cursor, len(keys) - 1))


def press(state: State, key: str, around: Around) -> State:
    """The state after a key. Unknown keys change nothing."""
    if state.typing:
        return _type(state, key)
    screen = state.screen
    if key in _MOVES:
        return state.on(_moved(screen, _MOVES[key], around))
    match key:
        case "q":
            return replace(state, over=True)
        case "esc" | "backspace" | "left":
            return _back(state)
        case "?":
            return state if screen.help else state.into(Screen(screen.kind, help=True))
        case "1" | "2" | "3":
            return replace(state, stack=(Screen(KINDS[int(key) - 1]),))
        case "tab" | "backtab":
            step = 1 if key == "tab" else -1
            at = KINDS.index(state.stack[0].kind)
            return replace(state, stack=(Screen(KINDS[(at + step) % len(KINDS)]),))
    return state if screen.is_text else _in_table(state, key, around)


def _in_table(state: State, key: str, around: Around) -> State:
    screen = state.screen
    match key:
        case "/":
            return replace(state, typing=True)
        case "s":
            order = (screen.order + 1) % len(TABLES[screen.kind].orders)
            return state.on(replace(screen, order=order))
        case "enter" | "right" | "d" if around.keys:
            chosen = around.keys[cursor_of(screen, around.keys)]
            state = state.on(replace(screen, selected=chosen))
            if key == "d" or screen.kind == "jobs":
                return state.into(Screen(screen.kind, about=chosen))
            if screen.kind == "queues":
                return state.into(Screen("jobs", queue=chosen[2]))
            return state.into(Screen("jobs", node=chosen[2]))
    return state


def _back(state: State) -> State:
    """First the filter goes, then the screen."""
    if state.screen.text:
        return state.on(replace(state.screen, text=""))
    if len(state.stack) > 1:
        return replace(state, stack=state.stack[:-1])
    return state


def _type(state: State, key: str) -> State:
    screen = state.screen
    match key:
        case "enter":
            return replace(state, typing=False)
        case "esc":
            return replace(state.on(replace(screen, text="")), typing=False)
        case "backspace":
            return state.on(replace(screen, text=screen.text[:-1]))
    if len(key) == 1 and key.isprintable() and len(screen.text) < _LONGEST:
        return state.on(replace(screen, text=screen.text + key))
    return state


def _moved(screen: Screen, move: Move, around: Around) -> Screen:
    last = max(0, around.lines - around.height if screen.is_text else len(around.keys) - 1)
    at = min(screen.cursor, last) if screen.is_text else cursor_of(screen, around.keys)
    page = max(1, around.height - 1)
    to = {
        "up": at - 1,
        "down": at + 1,
        "pgup": at - page,
        "pgdn": at + page,
        "home": 0,
        "end": last,
    }[move]
    to = max(0, min(to, last))
    if screen.is_text:
        return replace(screen, cursor=to)
    return replace(screen, cursor=to, selected=around.keys[to] if around.keys else None)

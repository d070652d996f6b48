"""The terminal: keys come in, lines go out, and it is left as it was found."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TextIO

from rich.console import Console, Group
from rich.live import Live

from kai_ray.cli.top import draw, tables
from kai_ray.cli.top.draw import Look
from kai_ray.cli.top.keys import Keys
from kai_ray.cli.top.reader import Reader
from kai_ray.cli.top.screens import Around, State, press
from kai_ray.cli.top.tables import Row

#: Drawn again at least so often, for ages and for the age of what is shown.
_TICK_S = 1.0
#: An escape that nothing follows for so long is the key.
_ESCAPE_S = 0.05


@dataclass
class Top:
    """Runs until `q`. `head` names the cluster, `now` is the time of its pictures."""

    reader: Reader
    head: str
    now: Callable[[], float]
    wakes: tuple[int, int]
    out: TextIO
    state: State = field(default_factory=State)

    def run(self) -> None:
        keys = Keys()
        # What the texts are made of is printed elsewhere and caught: only we write to `out`.
        console = Console(file=self.out, highlight=False)
        with (
            _raw(sys.stdin.fileno()),
            _resizes(self.wakes[1]),
            Live(
                console=console,
                screen=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live,
        ):
            while not self.state.over:
                look = Look(*console.size, plain=not _shows_blocks(self.out))
                rows, text = self._shown()
                self._draw(live, look, rows, text)
                around = Around(tables.keys(rows), len(text), look.rows)
                for key in _pressed(keys, self.wakes[0]):
                    self.state = press(self.state, key, around)
                    rows, text = self._shown()
                    around = Around(tables.keys(rows), len(text), look.rows)

    def _shown(self) -> tuple[list[Row], Sequence[str]]:
        now = self.state.screen
        if now.help:
            return [], draw.help_lines()
        if now.about is not None:
            return [], self.reader.text(now.about)
        self.reader.forget()
        found = tables.rows(
            self.reader.picture,
            now.kind,
            queue=now.queue,
            node=now.node,
            order=now.order,
            text=now.text,
        )
        return found, ()

    def _draw(self, live: Live, look: Look, rows: list[Row], text: Sequence[str]) -> None:
        picture = self.reader.picture
        problem = ""
        if self.reader.problem:
            problem = f"shown as of {self.now() - picture.at_s:.0f} s ago: {self.reader.problem}"
        lines = draw.screen(self.state, picture, rows, text, look, head=self.head, problem=problem)
        live.update(Group(*lines), refresh=True)


def _pressed(keys: Keys, wake: int) -> list[str]:
    """The keys that come before the next tick; none where something else is new."""
    stdin = sys.stdin.fileno()
    patience_s = _ESCAPE_S if keys.waiting else _TICK_S
    ready, _, _ = select.select([stdin, wake], [], [], patience_s)
    if wake in ready:
        os.read(wake, 4096)
    if stdin not in ready:
        return keys.flush() if keys.waiting and not ready else []
    data = os.read(stdin, 1024)
    return keys.feed(data) if data else ["q"]  # the terminal has gone


def _shows_blocks(out: TextIO) -> bool:
    return (out.encoding or "").lower().replace("-", "").startswith("utf")


@contextmanager
def _raw(stdin: int) -> Iterator[None]:
    """Keys come one by one and are not echoed; Ctrl-C still interrupts."""
    before = termios.tcgetattr(stdin)
    handlers = {
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_IGN),  # would leave us half-way
        signal.SIGTERM: signal.signal(signal.SIGTERM, _ended),
    }
    try:
        tty.setcbreak(stdin, termios.TCSANOW)  # what was typed before counts
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _ended(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _resizes(wake: int) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda number, frame: wake_up(wake))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def wake_up(pipe: int) -> None:
    """Has the loop draw; the pipe may be full of earlier calls, which serve as well."""
    try:
        os.write(pipe, b"!")
    except (BlockingIOError, OSError):
        return

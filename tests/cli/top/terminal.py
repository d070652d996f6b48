"""A terminal in which a program runs: what it shows, and keys pressed in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

KAI = [sys.executable, "-c", "from kai_ray.cli import main; main()"]


class Terminal:
    """`kai` in a terminal of its own. `size`: columns and lines."""

    def __init__(
        self, args: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (120, 30)
    ) -> None:
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._main, side = os.openpty()
        self.before = termios.tcgetattr(side)
        self._resize(size)
        self.process = subprocess.Popen(
            [*KAI, *args],
            stdin=side,
            stdout=side,
            stderr=side,
            # Whoever runs the tests may say how wide their own terminal is.
            env={k: v for k, v in env.items() if k not in ("COLUMNS", "LINES")},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._side = side
        self.raw = b""

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def selected(self) -> str:
        """The line that is shown reversed, from its first column on."""
        for y in range(self.screen.lines):
            if y > 1 and self.screen.buffer[y][0].reverse:
                return self.lines[y]
        return ""

    def press(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def until(self, see: Callable[[Terminal], object], seconds: float = 20.0) -> None:
        """Reads what is written until `see` is content. Fails with the screen."""
        end = time.monotonic() + seconds
        while not see(self):
            left = end - time.monotonic()
            assert left > 0, f"the terminal still shows:\n{self.text}"
            self._read(min(left, 0.2))

    def shows(self, *texts: str) -> None:
        self.until(lambda terminal: all(text in terminal.text for text in texts))

    def resize(self, columns: int, lines: int) -> None:
        self._resize((columns, lines))
        self.screen.resize(lines, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def _resize(self, size: tuple[int, int]) -> None:
        rows = struct.pack("HHHH", size[1], size[0], 0, 0)
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, rows)

    def ended(self) -> int:
        """The exit code, once it has ended."""
        end = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on:\n{self.text}"
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._side)

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._main], [], [], seconds)
        if ready:
            with contextlib.suppress(OSError):
                data = os.read(self._main, 65536)
                self.raw += data
                self._stream.feed(data)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)
        os.close(self._side)

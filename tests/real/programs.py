"""Programs that run beside a test and never outlive it.

Each is the leader of a process group of its own, writes to a log, and is ended with its group by
`stop`. Should the test be killed before that, the kernel ends the program itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
PATIENCE_S = 10.0


class ProgramFailed(AssertionError):
    """A program ended, or never became ready; the text ends with the last lines of its log."""


@dataclass
class Program:
    """A running program."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def running(self) -> bool:
        return self.process.poll() is None

    def cpu_s(self) -> float:
        """CPU seconds (user and system) that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Returns when `ready` does. Raises ProgramFailed if the program ends or takes longer."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.running():
                code = self.process.returncode
                raise ProgramFailed(f"{self.name} ended with {code}:\n{self.tail()}")
            if time.monotonic() > end:
                raise ProgramFailed(f"{self.name} is not ready in {seconds:g} s:\n{self.tail()}")
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        """To it and all that it started."""
        if self.running():
            os.killpg(self.pid, number)

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Asks it to end, and after `patience_s` makes it. Harmless if it has ended."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait(PATIENCE_S)
        # What it started may ignore its end.
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def kill(self) -> None:
        """At once, as if its machine lost power."""
        self.stop(patience_s=0)


@dataclass
class Programs:
    """Starts programs, in the order that they need each other, and stops them in the other."""

    logs: Path
    before_exec: Callable[[], None] | None = None  # runs in each new process: joins namespaces
    running: list[Program] = field(default_factory=list)

    def start(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        before_exec: Callable[[], None] | None = None,
        keep_files: Sequence[int] = (),
    ) -> Program:
        name = name or Path(command[0]).name
        self.logs.mkdir(parents=True, exist_ok=True)
        path = self.logs / f"{name}.log"
        parent = os.getpid()

        def prepare() -> None:
            for step in (self.before_exec, before_exec):
                if step is not None:
                    step()
            _end_with(parent)

        with path.open("ab") as log:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(os.environ) | dict(env or {}),
                start_new_session=True,
                preexec_fn=prepare,
                pass_fds=tuple(keep_files),
            )
        program = Program(name, path, process)
        self.running.append(program)
        return program

    def stop(self) -> None:
        while self.running:
            self.running.pop().stop()


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


_LIBC = _libc()


def _end_with(parent: int) -> None:
    """Has the kernel kill this process when the one that started it ends. Linux only."""
    if _LIBC is None:
        return
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended meanwhile
        os._exit(1)

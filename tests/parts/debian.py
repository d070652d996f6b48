"""Real programs that tests take from Debian where the machine has none: Prometheus and Chromium.

    python -m tests.parts.debian [PROGRAM...]

gets what is missing and prints the paths. What is on PATH is taken as it is. Else Prometheus is
fetched by apt (which checks its signatures) and unpacked in the cache of `build.py`: installing the
package would start a server on this machine. Chromium needs a hundred libraries and is installed,
which takes root. Where neither can be done, the tests that need the program are skipped by name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.parts.build import cache_dir

PROMETHEUS, CHROMIUM = "prometheus", "chromium"
PROGRAMS = (PROMETHEUS, CHROMIUM)
TIME_LIMIT_S = 900
#: A mirror may stumble, and another apt may be at work.
_APT = ("apt-get", "-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300")


class NotHere(Exception):
    """Why a program cannot be had on this machine, in words for the person who ran the tests."""


class Failed(Exception):
    """apt or dpkg did not do it; its own words."""


def find(program: str) -> Path | None:
    """The program on PATH or in the cache, or None."""
    if on_path := shutil.which(program):
        return Path(on_path)
    kept = _home(program) / "usr" / "bin" / program
    return kept if kept.exists() else None


def need(program: str) -> Path:
    """The program; skips the test that asks where there is none, fails it in root's CI."""
    found = find(program)
    if found is not None:
        return found
    reason = f"{program} is not here: install it, or run `make parts` as root on Debian"
    if os.environ.get("CI") and _root():
        pytest.fail(reason)
    pytest.skip(reason)


def get(program: str) -> Path:
    """Finds the program or gets Debian's. Raises NotHere or Failed."""
    if found := find(program):
        return found
    if tools := [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]:
        raise NotHere(f"no {program}, and no {' and '.join(tools)} to get Debian's by")
    if not _root():
        raise NotHere(f"no {program}, and only root may get Debian's")
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find(program) is None:
            print(f"parts: getting {program} from Debian (once)", file=sys.stderr, flush=True)
            _update()
            _unpack(program) if program == PROMETHEUS else _install(program)
    found = find(program)
    if found is None:
        raise Failed(f"Debian's package {program} has no program of that name")
    return found


def _root() -> bool:
    return os.geteuid() == 0


def _home(program: str) -> Path:
    return cache_dir() / f"debian-{program}"


def _update() -> None:
    """A bare machine knows no packages, and old lists name files that are gone."""
    _run([*_APT, "update"])


def _install(package: str) -> None:
    _run([*_APT, "-y", "--no-install-recommends", "install", package])


def _unpack(package: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=cache_dir()) as scratch:
        os.chmod(scratch, 0o755)  # apt's own user writes there
        _run([*_APT, "download", package], Path(scratch))
        (archive,) = Path(scratch).glob("*.deb")
        _run(["dpkg", "-x", str(archive), "out"], Path(scratch))
        (Path(scratch) / "out").rename(_home(package))


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise Failed(f"`{' '.join(command)}` failed with {done.returncode}:\n{tail}")


def main(arguments: Sequence[str]) -> int:
    """Prints the paths. A program that this machine cannot have is named and is no failure."""
    if wrong := [name for name in arguments if name not in PROGRAMS]:
        print(f"parts: no {', '.join(wrong)} here: {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    failed = 0
    for program in arguments or PROGRAMS:
        try:
            print(get(program))
        except NotHere as error:
            print(f"parts: {error}: its tests will be skipped", file=sys.stderr, flush=True)
        except Failed as error:
            print(f"parts: {error}", file=sys.stderr, flush=True)
            failed = 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

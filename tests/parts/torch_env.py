"""Finds a Python with PyTorch for CPUs, or makes one in the cache of `build.py`.

    python -m tests.parts.torch_env

prints a command line that runs it. PyPI's wheels of PyTorch for Linux bring three gigabytes of
CUDA; Debian's package needs 150 MB, so on Debian and its descendants that is fetched by apt (which
checks its signatures) and unpacked in the cache: nothing is installed, no rights are needed.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.parts.build import cache_dir

#: Written last: what is there without it was cut short.
STAMP = ".complete"
PACKAGE = "python3-torch"
PYTHON = Path("/usr/bin/python3")
TIME_LIMIT_S = 900
#: Parts of packages that no program needs to run.
_NEEDLESS = ("usr/share", "usr/bin", "usr/include", "etc", "var")


class NoTorch(Exception):
    """Why there is none, in words for the person who ran the tests."""


@dataclass(frozen=True)
class Torch:
    python: Path
    env: dict[str, str] = field(default_factory=dict)  # beside what is there


def build() -> Torch:
    """PyTorch in this environment, else Debian's, unpacked once. Raises NoTorch."""
    if importlib.util.find_spec("torch") is not None:
        return Torch(Path(sys.executable))
    tools = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    if tools or not PYTHON.exists():
        raise NoTorch(f"no PyTorch here, and no {' or '.join(tools) or PYTHON} to get Debian's by")
    home = cache_dir() / f"torch-{_system()}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / ".torch-env.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / STAMP).exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(home)
            (home / STAMP).touch()
    return _unpacked(home)


def _make(home: Path) -> None:
    print("parts: fetching PyTorch from Debian (half a minute, once)", file=sys.stderr, flush=True)
    archives = home / "archives"
    (archives / "partial").mkdir(parents=True)
    root = home / "root"
    fetch = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}", "-y"]
    _run(["apt-get", *fetch, "--no-install-recommends", "--download-only", "install", PACKAGE])
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)])
    shutil.rmtree(archives)
    for part in _NEEDLESS:
        shutil.rmtree(root / part, ignore_errors=True)
    found = _unpacked(home)
    _run([str(found.python), "-c", "import torch; torch.ones(1)"], env=os.environ | found.env)


def _unpacked(home: Path) -> Torch:
    """The system's Python, told where the packages lie."""
    lib = home / "root" / "usr" / "lib"
    folders = {p.parent for p in (home / "root").glob("**/*.so*") if "python3" not in p.parts}
    env = {
        "LD_LIBRARY_PATH": os.pathsep.join(str(f) for f in sorted(folders)),
        "PYTHONPATH": str(lib / "python3" / "dist-packages"),
        "PYTHONNOUSERSITE": "1",
    }
    return Torch(PYTHON, env)


def _system() -> str:
    release = platform.freedesktop_os_release()
    return f"{release.get('ID', 'linux')}-{release.get('VERSION_ID', '0')}-{platform.machine()}"


def _run(command: list[str], env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT_S, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoTorch(f"{command[0]}: {error}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise NoTorch(f"`{' '.join(command)}` failed with {done.returncode}:\n{tail}")


def main() -> int:
    try:
        found = build()
    except NoTorch as error:
        print(f"parts: {error}", file=sys.stderr, flush=True)
        return 1
    print(*(f"{name}={value}" for name, value in found.env.items()), found.python)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

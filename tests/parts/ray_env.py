"""Makes the environment in which tests run a real Ray, once, from pinned versions.

    python tests/parts/ray_env.py

prints its folder. Ray as users install it (`ray[default]`: dashboard and job submission) is no
dependency of this project: it lives in an environment of its own, in the cache that `build.py`
keeps programs in, named after the pins in `ray.txt` and this Python. A second call costs nothing.
To choose new versions: `uv pip compile --universal --no-header --no-annotate --no-emit-index-url
--python-version 3.11 tests/parts/ray.in -o tests/parts/ray.txt`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "ray.txt"
#: Written last: an environment without it was cut short.
STAMP = ".complete"
TIME_LIMIT_S = 1200


class NoRay(Exception):
    """Why the environment could not be made, in words for the person who ran the tests."""


def find() -> Path | None:
    """The environment's folder, or None if `build` has not been run for these pins."""
    home = _home()
    return home if (home / STAMP).exists() else None


def build() -> Path:
    """Makes the environment unless it is there; returns its folder. Raises NoRay."""
    home = _home()
    if (home / STAMP).exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / ".ray-env.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / STAMP).exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(home)
            (home / STAMP).touch()
    return home


def environment(home: Path) -> dict[str, str]:
    """Variables for a process that runs Ray: its `python` comes first, nothing is reported home."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env.pop("PYTHONPATH", None)
    env.pop("PYTHONHOME", None)
    env.pop("VIRTUAL_ENV", None)
    env["PATH"] = f"{home / 'bin'}{os.pathsep}{env.get('PATH', '')}"
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    return env


def _make(home: Path) -> None:
    print("parts: installing Ray from PyPI (a minute, once)", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--no-deps", "--only-binary", ":all:", "-r", str(PINS)])


def _home() -> Path:
    pins = hashlib.sha256(PINS.read_bytes())
    pins.update(f"{sys.version_info[:2]}{sys.platform}".encode())
    return _cache_dir() / f"ray-{pins.hexdigest()[:12]}"


def _cache_dir() -> Path:
    if chosen := os.environ.get("KAI_PARTS"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kai-ray" / "parts"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoRay(f"{command[0]}: {error}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise NoRay(f"`{' '.join(command)}` failed with {done.returncode}:\n{tail}")


def main() -> int:
    try:
        print(build())
    except NoRay as error:
        print(f"parts: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Environments of Python packages that tests run beside us, each made once from pins with hashes.

    python -m tests.parts.python_env [NAME...]

prints their folders. These packages are no dependencies of this project, and exclude one another:
each lives in an environment of its own, in the cache that `build.py` keeps programs in, named after
its pins and this Python. A second call costs nothing. NAME.in says what is wanted, NAME.txt is what
was chosen: `uv pip compile --universal --generate-hashes --no-header --no-annotate
--no-emit-index-url --python-version 3.11 tests/parts/NAME.in -o tests/parts/NAME.txt`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Written last: an environment without it was cut short.
STAMP = ".complete"
TIME_LIMIT_S = 1200


class NoEnvironment(Exception):
    """Why it could not be made, in words for the person who ran the tests."""


@dataclass(frozen=True)
class PythonEnv:
    """One of them; `words` say what is in it."""

    name: str
    words: str

    def find(self) -> Path | None:
        """The environment's folder, or None if `build` has not been run for these pins."""
        return self.home if (self.home / STAMP).exists() else None

    def build(self) -> Path:
        """Makes the environment unless it is there; returns its folder. Raises NoEnvironment."""
        home = self.home
        if (home / STAMP).exists():
            return home
        home.parent.mkdir(parents=True, exist_ok=True)
        with (home.parent / f".{self.name}-env.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (home / STAMP).exists():
                shutil.rmtree(home, ignore_errors=True)
                self._make(home)
                (home / STAMP).touch()
        return home

    @property
    def pins(self) -> Path:
        return HERE / f"{self.name}.txt"

    @property
    def home(self) -> Path:
        pins = hashlib.sha256(self.pins.read_bytes())
        pins.update(f"{sys.version_info[:2]}{sys.platform}".encode())
        return _cache_dir() / f"{self.name}-{pins.hexdigest()[:12]}"

    def _make(self, home: Path) -> None:
        print(f"parts: installing {self.words} (a minute, once)", file=sys.stderr, flush=True)
        _run([sys.executable, "-m", "venv", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(self.pins)])


RAY = PythonEnv("ray", "Ray with Tune, and Optuna")
KFP = PythonEnv("kfp", "Kubeflow Pipelines' SDK")
KUBEFLOW = PythonEnv("kubeflow", "Kubeflow's SDK")
KUBEFLOW_TRAINING = PythonEnv("kubeflow-training", "the SDK of Kubeflow's training operator")

ENVS = {env.name: env for env in (RAY, KFP, KUBEFLOW, KUBEFLOW_TRAINING)}


def environment(home: Path) -> dict[str, str]:
    """Variables for a process of such an environment: its `python` comes first, none of ours."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        env.pop(name, None)
    env["PATH"] = f"{home / 'bin'}{os.pathsep}{env.get('PATH', '')}"
    return env


def _cache_dir() -> Path:
    if chosen := os.environ.get("KAI_PARTS"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kai-ray" / "parts"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoEnvironment(f"{command[0]}: {error}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise NoEnvironment(f"`{' '.join(command)}` failed with {done.returncode}:\n{tail}")


def main(names: list[str]) -> int:
    try:
        for name in names or ENVS:
            print(ENVS[name].build())
    except KeyError as error:
        print(f"parts: no environment {error}: choose of {', '.join(ENVS)}", file=sys.stderr)
        return 2
    except NoEnvironment as error:
        print(f"parts: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

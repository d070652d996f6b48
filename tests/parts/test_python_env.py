"""The environments beside the tests are what their pins say, and made whole or not at all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import python_env
from tests.parts.python_env import ENVS, NoEnvironment, PythonEnv


@pytest.mark.parametrize("name", ENVS)
def test_what_is_wanted_is_pinned_with_hashes(name: str) -> None:
    pins = ENVS[name].pins.read_text()
    starts = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", pins, re.MULTILINE)
    assert starts
    blocks = re.split(r"^(?=[A-Za-z0-9._-]+==)", pins, flags=re.MULTILINE)[1:]
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
    wanted = ENVS[name].pins.with_suffix(".in").read_text()
    chosen = {found.lower() for found, _ in starts}
    for line in wanted.splitlines():
        if line and not line.startswith("#"):
            assert re.split(r"[\[=><]", line)[0].lower() in chosen


@pytest.mark.parametrize("name", ENVS)
def test_other_pins_are_another_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAI_PARTS", "/nowhere")
    home = ENVS[name].home
    assert home.parent == Path("/nowhere")
    assert re.fullmatch(rf"{name}-[0-9a-f]{{12}}", home.name)
    monkeypatch.setattr(python_env.sys, "version_info", (3, 99, 0))
    assert ENVS[name].home != home


def test_one_that_was_cut_short_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAI_PARTS", str(tmp_path / "cache"))
    monkeypatch.setattr(python_env, "HERE", tmp_path)
    (tmp_path / "none.txt").write_text("")
    env = PythonEnv("none", "nothing")
    env.home.mkdir(parents=True)
    (env.home / "half").write_text("")
    assert env.find() is None
    monkeypatch.setattr(PythonEnv, "_make", lambda self, home: home.mkdir())
    assert env.build() == env.find() == env.home
    assert not (env.home / "half").exists()


def test_a_wrong_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAI_PARTS", str(tmp_path / "cache"))
    monkeypatch.setattr(python_env, "HERE", tmp_path)
    (tmp_path / "evil.txt").write_text(f"msgspec==0.20.0 --hash=sha256:{'0' * 64}\n")
    ran: list[list[str]] = []

    def run(command: list[str]) -> None:
        ran.append(command)
        if "pip" in command:
            raise NoEnvironment("hashes do not match")

    monkeypatch.setattr(python_env, "_run", run)
    env = PythonEnv("evil", "something else")
    with pytest.raises(NoEnvironment):
        env.build()
    assert env.find() is None
    assert "--require-hashes" in ran[-1]


def test_an_unknown_name_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.parts.python_env", "nonsense"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert done.returncode == 2
    assert "choose of ray, kfp, kubeflow, kubeflow-training" in done.stderr

"""What the machine has is taken; else Debian's is got, or the tests that need it are skipped.

Stand-ins play apt and dpkg: they write what they were asked and lay down a small program.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.parts import debian

APT = r"""#!/bin/sh
echo "$@" >> "$STORY/calls"
if [ -f "$STORY/refuse" ]; then echo "E: Unable to fetch some archives" >&2; exit 100; fi
for word; do last=$word; done
case "$*" in
*download*) touch "${last}_2.42_amd64.deb" ;;
*install*) printf '#!/bin/sh\n' > "$STORY/tools/$last"; chmod +x "$STORY/tools/$last" ;;
esac
"""
DPKG = r"""#!/bin/sh
mkdir -p "$3/usr/bin"
touch "$3/usr/bin/prometheus"
"""


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root's machine with apt and nothing else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("apt-get", APT), ("dpkg", DPKG)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for name in ("sh", "touch", "chmod", "mkdir"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("STORY", str(tmp_path))
    monkeypatch.setenv("KAI_PARTS", str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_a_program_on_path_is_taken_as_it_is(story: Path) -> None:
    (story / "tools" / "prometheus").symlink_to("/bin/true")
    assert debian.get("prometheus") == story / "tools" / "prometheus"
    assert not (story / "calls").exists()


def test_prometheus_is_unpacked_and_never_installed(story: Path) -> None:
    found = debian.get("prometheus")
    assert found.is_relative_to(story / "cache")
    assert "install" not in (story / "calls").read_text()
    assert debian.get("prometheus") == found
    assert len((story / "calls").read_text().splitlines()) == 2  # lists, then the package: once


def test_chromium_is_installed(story: Path) -> None:
    assert debian.get("chromium") == story / "tools" / "chromium"
    calls = (story / "calls").read_text().splitlines()
    assert [" ".join(call.split()[5:]) for call in calls] == [
        "update",
        "-y --no-install-recommends install chromium",
    ]


def test_a_refusal_is_told_in_its_own_words_and_leaves_nothing(
    story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (story / "refuse").touch()
    assert debian.main(["prometheus"]) == 1
    assert "Unable to fetch some archives" in capsys.readouterr().err
    assert debian.find("prometheus") is None


@pytest.mark.parametrize("why", ["not root", "no Debian"])
def test_where_it_cannot_be_had_its_tests_are_skipped_by_name(
    story: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why: str,
) -> None:
    if why == "not root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    else:
        (story / "tools" / "apt-get").unlink()
    assert debian.main(["prometheus"]) == 0
    assert "will be skipped" in capsys.readouterr().err
    with pytest.raises(pytest.skip.Exception, match="prometheus is not here"):
        debian.need("prometheus")


def test_in_roots_ci_a_missing_program_is_a_failure(
    story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="chromium is not here"):
        debian.need("chromium")


def test_other_programs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert debian.main(["grafana"]) == 2
    assert "prometheus, chromium" in capsys.readouterr().err

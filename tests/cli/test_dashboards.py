"""`kai dashboards` lists, prints and writes what Grafana imports."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from kai_ray.cli.root import root
from kai_ray.metrics.dashboards import dashboards


def kai(*args: str) -> Result:
    return CliRunner().invoke(root, ["dashboards", *args])


def test_they_are_listed_and_printed_by_name() -> None:
    listed = [line.split()[0] for line in kai().output.splitlines()]
    assert listed == ["NAME", "queues", "jobs", "nodes", "scheduler"]
    for name in ("nodes", "kai-ray-nodes"):
        assert json.loads(kai(name).output) == dashboards()["kai-ray-nodes"]


def test_they_are_written_for_grafanas_provisioning(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert kai("--to", str(folder)).exit_code == 0
    written = {path.stem: json.loads(path.read_text()) for path in folder.iterdir()}
    assert written == dashboards()


def test_what_is_not_there_or_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = kai("pods")
    assert done.exit_code == 3 and "'pods' does not exist" in done.output
    (tmp_path / "file").touch()
    done = kai("--to", str(tmp_path / "file" / "in"))
    assert done.exit_code == 1 and "cannot write to" in done.output

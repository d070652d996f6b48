"""`kubectl kai …`: the real kubectl finds the command and hands it its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.build import find

from .conftest import Kai


def test_the_real_kubectl_runs_the_plugin(kai: Kai) -> None:
    kubectl = find("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl: build it with `make parts`")
    scripts = Path(sys.executable).parent
    if not (scripts / "kubectl-kai").exists():
        pytest.skip("kai-ray is not installed: run `make dev`")
    env = {k: v for k, v in os.environ.items() if k not in ("KAI_KUBECONFIG", "KUBECONFIG")}
    done = subprocess.run(
        [str(kubectl), "kai", "--kubeconfig", str(kai.file), "get", "nodes", "-o", "name"],
        env=env | {"PATH": f"{scripts}{os.pathsep}{Path(str(shutil.which('env'))).parent}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "node/gpu-0" in done.stdout.split()

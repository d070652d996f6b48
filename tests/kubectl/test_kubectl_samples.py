"""Upstream's sample manifests, applied unchanged with kubectl's strict field validation."""

from __future__ import annotations

import subprocess

import pytest

from tests.shared import shared_dir

from .conftest import Kubectl

#: What kubectl rightly refuses: kinds that nobody installed, and apply of a generated name.
REFUSED = (
    'no matches for kind "ComputeDomain"',
    'no matches for kind "Queue" in version "scheduling.volcano.sh/v1beta1"',
    "cannot use generate name with apply",
)


@pytest.mark.parametrize("folder", ["kai", "kuberay", "trainer", "training-operator"])
def test_samples_are_applied_unchanged(kubectl: Kubectl, folder: str) -> None:
    path = shared_dir("manifests", folder)
    if folder == "training-operator":
        kubectl("create", "namespace", "kubeflow")
    done = subprocess.run(
        [str(kubectl.program), "apply", "-R", "-f", str(path)],
        env=kubectl.env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    complaints = [
        line
        for line in done.stderr.splitlines()
        if line.strip()
        and not line.startswith(("Warning:", "ensure CRDs"))
        and not any(words in line for words in REFUSED)
    ]
    assert complaints == []
    assert len(done.stdout.splitlines()) >= 10, done.stdout

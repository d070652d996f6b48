"""Some of upstream's samples, unchanged: whatever gangs they come to are bound whole.

All of them: `python -m tests.real.operators.manifests`.
"""

from __future__ import annotations

import pytest

from tests.real.operators import manifests
from tests.real.operators.fleet import SAMPLES, Fleet

#: One of each kind that its release shows: plain, with a submitter, with claims on the first GPU.
CHOSEN = (
    "kuberay/ray-job.light-weight-submitter",
    "kuberay/ray-cluster.autoscaler-v2",
    "kuberay/ray-service.sample",
    "training-operator/pytorch--smoke-dist--pytorch_job_sendrecv",
    "training-operator/tensorflow--simple",
    "trainer/yaml--01-multi-node",
    "kai/batch--batch-job-min-member",
    "kai/ray--ray-job",
)
pytestmark = pytest.mark.real


def test_samples_are_bound_whole(fleet: Fleet) -> None:
    found = manifests.samples(CHOSEN)
    if not found:
        pytest.skip("recorded facts are absent: set KAI_SHARED to their folder")
    manifests.add_runtimes(fleet.plane)
    for sample in found:
        sample.namespace = SAMPLES
        manifests.submit(fleet.plane, sample)
    verdicts = manifests.settle(fleet.plane, found)
    assert [sample.refused for sample in found if sample.refused] == []
    assert {v.sample for v in verdicts} == {sample.name for sample in found}
    assert [verdict for verdict in verdicts if verdict.why] == []

"""`kai plan` on the upstream samples, unchanged."""

from __future__ import annotations

from functools import cache

import pytest
import yaml

from kai_ray.api.quantity import parse
from kai_ray.podgrouper.plan import WorkloadPlan, plan_files
from kai_ray.podgrouper.plan_output import as_objects
from kai_ray.podgrouper.registry import is_workload
from tests.shared import shared_dir


@cache
def samples() -> tuple[list[WorkloadPlan], int]:
    """(plans, number of workloads in the files)."""
    files = sorted(shared_dir("manifests").rglob("*.yaml"))
    known = sum(
        is_workload(doc)
        for file in files
        for doc in yaml.safe_load_all(file.read_text())
        if isinstance(doc, dict)
    )
    return plan_files(files), known


def test_every_workload_is_grouped_or_says_what_is_missing() -> None:
    found, known = samples()
    assert len(found) == known
    refused = {p.error for p in found if p.error}
    # The two Flux samples name a runtime that the samples do not hold.
    assert all("'flux-distributed' is not known" in error for error in refused)
    assert sum(p.error is not None for p in found) <= 2
    assert all(p.gangs for p in found if not p.error)


def test_every_gang_can_be_satisfied_by_its_own_pods() -> None:
    for plan in samples()[0]:
        for gang in plan.gangs:
            if gang.name.startswith("pg-"):
                assert 0 < gang.min_member <= gang.pods, plan.name
            assert all(parse(amount) > 0 for amount in gang.requests.values())


def test_the_json_has_the_promised_shape() -> None:
    for row in as_objects(samples()[0]):
        assert list(row) == [
            "file",
            "apiVersion",
            "kind",
            "namespace",
            "name",
            "error",
            "gangs",
        ]
        for gang in row["gangs"]:
            claims = gang.pop("claims", None)  # only where its pods claim devices
            assert claims is None or gang["name"].startswith("pg-gpu-imex-pod")
            assert list(gang) == [
                "name",
                "minMember",
                "queue",
                "priorityClassName",
                "preemptible",
                "topology",
                "subGroups",
                "pods",
                "requests",
            ]
            assert isinstance(gang["minMember"], int)
            assert isinstance(gang["pods"], int)


@pytest.mark.parametrize(
    ("kind", "name", "floor", "pods", "requests"),
    [
        ("RayCluster", "raycluster-tpu-v6e-multihost", 5, 5, {"google.com/tpu": "16"}),
        ("RayJob", "v6e-256-job", 65, 66, {"google.com/tpu": "256"}),
        ("RayJob", "rayjob-use-existing-raycluster", 1, 1, {"cpu": "500m", "memory": "200Mi"}),
        ("Job", "batch-job-min-member", 2, 6, {"nvidia.com/gpu": "6"}),
        ("PyTorchJob", "elastic-example-imagenet", 1, 2, {"cpu": "8"}),
        ("TrainJob", "multi-step-example", 1, 3, {"memory": "8Gi"}),
        ("Job", "rack-bound-job", 6, 3, {"nvidia.com/gpu": "12"}),
    ],
)
def test_known_samples(
    kind: str, name: str, floor: int, pods: int, requests: dict[str, str]
) -> None:
    plan = next(p for p in samples()[0] if (p.kind, p.name) == (kind, name))
    (gang,) = plan.gangs
    assert (gang.min_member, gang.pods) == (floor, pods)
    assert requests.items() <= gang.requests.items()

"""`kai plan` tells which devices workloads claim."""

from __future__ import annotations

from pathlib import Path

import yaml

from kai_ray.podgrouper.plan import plan_files
from kai_ray.podgrouper.plan_output import as_objects, to_table
from tests.dra import objects as o


def _plans(folder: Path, *docs: object):
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump_all(docs))
    return plan_files([path])


def _job(pods: int, **entry: str):
    spec = o.pod("x", **entry)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


def test_devices_of_a_template_count_for_every_pod(tmp_path: Path) -> None:
    template = o.template("t", o.spec(o.exactly(count=2), o.exactly("nic", "nic.example.com")))
    plans = _plans(tmp_path, template, _job(3, template="t"))
    found = as_objects(plans)[0]["gangs"][0]["claims"]
    pods = as_objects(plans)[0]["gangs"][0]["pods"]
    assert found == {
        "gpu.nvidia.com devices": str(2 * pods),
        "nic.example.com devices": str(pods),
    }
    assert f"gpu.nvidia.com devices={2 * pods}" in to_table(plans)


def test_a_shared_claim_counts_once_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    claim = o.claim("c", o.spec(o.exactly(allocationMode="All")))
    del claim["metadata"]["namespace"]
    plans = _plans(tmp_path, claim, _job(3, claim="c"))
    assert as_objects(plans)[0]["gangs"][0]["claims"] == {"gpu.nvidia.com devices": "all"}
    plans = _plans(tmp_path, _job(1, template="elsewhere"))
    assert as_objects(plans)[0]["gangs"][0]["claims"] == {"devices of template elsewhere": "?"}

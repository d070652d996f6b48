"""Where the example manifests lie: beside the package in a clone, else in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import kai_ray
from kai_ray.cli.failures import USAGE, Failure


def folder() -> Path:
    """The folder `examples/`."""
    clone = Path(str(kai_ray.__file__)).resolve().parents[1]
    for place in (clone / "examples", Path(sys.prefix) / "share" / "kai-ray" / "examples"):
        if (place / "cluster.yaml").is_file():
            return place
    raise Failure("the examples are not installed", next="clone the repository and run `make demo`")


#: What the demonstration takes from a folder of upstream samples, in order: a RayJob, a RayCluster,
#: a RayService, PyTorchJobs, an MPIJob, a TrainJob with its runtime, and a Job.
SAMPLES = (
    "kuberay/ray-job.sample.yaml",
    "kuberay/ray-cluster.sample.yaml",
    "kuberay/ray-service.sample.yaml",
    "training-operator/pytorch--mnist--v1--pytorch_job_mnist_nccl.yaml",
    "training-operator/mpi--tensorflow-mnist-elastic.yaml",
    "trainer/manifests--base--runtimes--torch_distributed.yaml",
    "trainer/yaml--01-multi-node.yaml",
    "kai/batch--batch-job.yaml",
)


def samples(named: str | None) -> list[Path]:
    """Upstream samples: those of the folder that was named, else of the shared folder, if any.

    A folder that holds none of `SAMPLES` gives all its manifests.
    """
    if named:
        place = Path(named)
        if not place.is_dir():
            raise Failure(f"{named}: no such folder", code=USAGE)
        return [place / n for n in SAMPLES if (place / n).is_file()] or [place]
    shared = os.environ.get("KAI_SHARED") or folder().parent.parent / "shared"
    place = Path(shared) / "manifests"
    return [place / n for n in SAMPLES if (place / n).is_file()]

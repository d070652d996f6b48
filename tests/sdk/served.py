"""A cluster in real time behind its REST face, and programs that are run against it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kai_ray
from kai_ray.sdk.client import Client
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.parts import python_env

from .conftest import EXAMPLES

ROOT = EXAMPLES.parent
#: As examples/cluster.yaml, with pods that end after a second.
CLUSTER = """
seed: 7
nodePools:
  - {name: gpu, count: 4, gpus: 8, runTime: {kind: constant, meanSeconds: 1}}
  - {name: cpu, count: 1, runTime: {kind: constant, meanSeconds: 1}}
"""


@dataclass(frozen=True)
class Served:
    cluster: EmbeddedCluster
    kubeconfig: Path
    kai: Client

    def run(self, *command: str, home: Path | None = None, cwd: Path | None = None) -> str:
        """Runs a program of ours in an environment's Python; its output, once it has succeeded."""
        python = str(home / "bin" / "python") if home else sys.executable
        env = python_env.environment(home) if home else dict(os.environ)
        env |= {
            "PYTHONPATH": str(ROOT),
            "KAI_KUBECONFIG": str(self.kubeconfig),
            "KUBECONFIG": str(self.kubeconfig),
            "NO_COLOR": "1",
        }
        done = subprocess.run(
            [python, *command], env=env, cwd=cwd, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    with EmbeddedCluster(ClusterConfig.parse(CLUSTER)) as cluster:
        cluster.start()
        kubeconfig = cluster.serve().write_kubeconfig(folder / "config")
        with kai_ray.connect(kubeconfig=kubeconfig) as kai:
            kai.submit_all(EXAMPLES / "queues.yaml")
            yield Served(cluster, kubeconfig, kai)

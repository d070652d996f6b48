"""A running cluster, and the command line pointed at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kai_ray.cli.root import root
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Pods that end by themselves do so after this long.
RUN_S = 1.0

CLUSTER = f"""
seed: 1
nodePools:
  - name: gpu
    count: 4
    gpus: 8
    runTime: {{kind: constant, meanSeconds: {RUN_S}}}
  - name: cpu
    count: 2
    runTime: {{kind: constant, meanSeconds: {RUN_S}}}
"""


class Kai:
    """Runs commands in this process against one kubeconfig."""

    def __init__(self, file: Path, history: Path | None = None) -> None:
        self.file = file
        self.history = history

    def __call__(self, *args: str, stdin: str | None = None) -> Result:
        env = {"KAI_KUBECONFIG": str(self.file), "NO_COLOR": "1"}
        env |= {"KAI_HISTORY": str(self.history)} if self.history else {}
        return CliRunner().invoke(root, list(args), env=env, input=stdin)

    def ok(self, *args: str, stdin: str | None = None) -> str:
        """The output of a command that must succeed."""
        done = self(*args, stdin=stdin)
        assert done.exit_code == 0, f"kai {' '.join(args)}: {done.output}"
        return done.output

    def eventually(self, see: Callable[[str], bool], *args: str, within_s: float = 20.0) -> str:
        """The output of a command as soon as it succeeds and `see` is content with it."""
        deadline = time.monotonic() + within_s
        while True:
            done = self(*args)
            if done.exit_code == 0 and see(done.output):
                return done.output
            assert time.monotonic() < deadline, f"kai {' '.join(args)} still says:\n{done.output}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history") / "history.sqlite"


@pytest.fixture(scope="module")
def cluster(history: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(ClusterConfig.parse(CLUSTER), history=history) as embedded:
        embedded.start()
        yield embedded


@pytest.fixture(scope="module")
def kai(
    cluster: EmbeddedCluster, history: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kai]:
    file = tmp_path_factory.mktemp("kube") / "config"
    with RestServer(cluster.store) as server:
        yield Kai(server.write_kubeconfig(file), history)

"""What admission says beside a success reaches who wrote, over HTTP and in `kai submit`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from urllib3 import HTTPHeaderDict

from kai_ray.cli.root import root
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.kube_http import warnings_of
from kai_ray.cluster.kubeconfig import write
from kai_ray.cluster.port import Object
from kai_ray.cluster.rest import RestServer
from kai_ray.cluster.rest.answers import json_answer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def server() -> Iterator[RestServer]:
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock()) as cluster:
        yield cluster.serve()


def _job(name: str, queue: str) -> Object:
    container = {"name": "main", "image": "app", "resources": {"limits": {"nvidia.com/gpu": 9}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kai.scheduler/queue": queue},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_warnings_are_heard_once_by_who_wrote(server: RestServer) -> None:
    port = KubePort(server.connection())
    heard: list[str] = []
    port.on_warning(heard.append)
    port.create(kinds.JOB, _job("one", "nowhere"))
    assert len(heard) == 2
    assert "queue 'nowhere' does not exist" in heard[0]
    assert "asks for 9 nvidia.com/gpu" in heard[1]
    port.get(kinds.JOB, "one", "default")
    assert len(heard) == 2
    port.close()


def test_submit_shows_them(server: RestServer, tmp_path: Path) -> None:
    kubeconfig = write(server.kubeconfig(), tmp_path / "kubeconfig")
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(_job("two", "default-quee")))
    done = CliRunner().invoke(root, ["submit", str(manifest), "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == 0, done.output
    assert "warning: " in done.stderr and "did you mean 'default-queue'?" in done.stderr
    assert "job.batch/two created" in done.stdout


@pytest.mark.parametrize(
    "text", ["plain", 'a "quoted" word', "back\\slash", 'both \\" at once', ""]
)
def test_any_text_survives_the_header(text: str) -> None:
    answer = json_answer({}, warnings=[text, "another"])
    headers = HTTPHeaderDict(answer.headers.items())
    assert warnings_of(headers) == [text, "another"]

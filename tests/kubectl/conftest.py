"""The real kubectl against the REST face of a memory store."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.rest import RestServer
from tests.parts import build

TIME_LIMIT_S = 60


class KubectlFailed(AssertionError):
    """kubectl said no; the text is what it said."""


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl in one namespace of one server."""

    program: Path
    env: dict[str, str]
    namespace: str
    store: MemoryStore

    def __call__(self, *args: str, stdin: Any = None, ok: bool = True) -> str:
        """Its output; with `ok=False`, it must fail and its complaint is returned."""
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [str(self.program), "-n", self.namespace, *args],
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
        )
        if ok and done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}")
        if not ok:
            assert done.returncode, f"kubectl {' '.join(args)} should fail; it said {done.stdout}"
            return done.stderr + done.stdout
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "-o", "json"))

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Runs kubectl beside the test, for -w and wait; it is killed if the test hangs on it."""
        process = subprocess.Popen(
            [str(self.program), "-n", self.namespace, *args],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        reaper = threading.Timer(TIME_LIMIT_S, process.kill)
        reaper.daemon = True
        reaper.start()
        return process


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    found = build.find("kubectl")
    if found is None:
        pytest.skip("kubectl is not built: run `make parts`")
    return found


@pytest.fixture(scope="session")
def server() -> Iterator[RestServer]:
    store = MemoryStore()
    install_defaults(store)
    with RestServer(store) as running:
        yield running


@pytest.fixture(scope="session")
def kubectl_env(server: RestServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    config = server.write_kubeconfig(home / "config")
    return {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(config)}


@pytest.fixture
def kubectl(
    request: pytest.FixtureRequest,
    kubectl_program: Path,
    server: RestServer,
    kubectl_env: dict[str, str],
) -> Kubectl:
    """kubectl in a namespace of the test's own."""
    store = server.store
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    namespace = words.removeprefix("test-")[:40].strip("-")
    store.create(
        r.NAMESPACE,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    return Kubectl(kubectl_program, kubectl_env, namespace, store)


@pytest.fixture
def pod(kubectl: Kubectl) -> Callable[..., dict[str, Any]]:
    """A pod manifest of the test's namespace."""

    def make(name: str, *containers: str, **labels: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": kubectl.namespace, "labels": labels},
            "spec": {
                "containers": [
                    {"name": c, "image": f"registry.example/{c}:1"} for c in containers or ("main",)
                ]
            },
        }

    return make

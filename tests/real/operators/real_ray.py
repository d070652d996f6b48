"""A real Ray head inside a plane's network: it answers at the address of every simulated pod."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3

from kai_ray.cluster.port import Object
from tests.parts import ray_env
from tests.real.control_plane import ControlPlane

#: Beside the port on which simulated heads answer (dashboard.py).
DASHBOARD = 8266
READY_S = 90.0


class RealRay:
    """Ray's own job submission, as KubeRay and users reach it: by way of the API server."""

    def __init__(self, plane: ControlPlane, home: Path, folder: Path) -> None:
        self.plane = plane
        self.home = home
        self.folder = folder

    def job_log(self, job: Object) -> str:
        """What the RayJob's entrypoint printed; kept beside the logs of the plane's programs."""
        name = job["status"]["jobId"]
        text = self._ask(job, f"api/jobs/{name}/logs")["logs"]
        (self.plane.programs.logs / f"ray-job-{name}.log").write_text(text)
        return text

    def submitter(self, pod: Object, head_address: str) -> str:
        """Runs what a submitter pod's kubelet would run, in its environment; returns its log."""
        main = pod["spec"]["containers"][0]
        env = {e["name"]: e.get("value", "") for e in main["env"]}
        host = env["RAY_DASHBOARD_ADDRESS"].rpartition(":")[0]
        command = [w.replace(host, head_address) for w in (*main["command"], *main["args"])]
        env = {k: v.replace(host, head_address) for k, v in env.items()}
        name = pod["metadata"]["name"]
        started = self.plane.run(
            Path(command[0]), command[1:], name=name, env=ray_env.environment(self.home) | env
        )
        code = started.process.wait(READY_S)
        assert code == 0, started.tail()
        return started.log.read_text()

    def _ask(self, job: Object, path: str) -> Object:
        meta = job["metadata"]
        service = f"{meta['namespace']}/services/{meta['name']}-head-svc:dashboard"
        return self.plane.port.raw("GET", f"/api/v1/namespaces/{service}/proxy/{path}")


@contextmanager
def running(plane: ControlPlane, home: Path, cpus: int = 4, gpus: int = 4) -> Iterator[RealRay]:
    """`ray start --head` of the Ray in `home`, until the end of the block."""
    # Ray's sockets lie there, and their paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    args = [
        "start",
        "--head",
        "--block",
        "--node-ip-address=127.0.0.1",
        "--dashboard-host=0.0.0.0",
        f"--dashboard-port={DASHBOARD}",
        f"--num-cpus={cpus}",
        f"--num-gpus={gpus}",
        "--object-store-memory=100000000",
        f"--temp-dir={folder}",
        "--disable-usage-stats",
    ]
    # Nothing runs any more when it is told to end.
    env = ray_env.environment(home) | {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
    program = plane.run(home / "bin" / "ray", args, name="real-ray", env=env)
    here = plane.reach(DASHBOARD)
    try:
        program.wait_until(lambda: _answers(here), READY_S)
        yield RealRay(plane, home, folder)
    finally:
        program.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    try:
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/api/jobs/", retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 200

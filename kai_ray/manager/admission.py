"""The admission webhook inside the process: its server, its certificate, its plugins.

Unlike the scheduler it runs in every replica, leader or not: who answers does not matter, and an
answer must not wait for an election.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kai_ray.admission import default_admission, runtime_class
from kai_ray.admission.certificate_keeper import CertificateKeeper, KeeperConfig
from kai_ray.admission.server import WebhookServer
from kai_ray.admission.workloads import WorkloadAdmission
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import Clock, SystemClock
from kai_ray.cluster.port import Admission, ApiError, Object, Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.encode import EncodeConfig
from kai_ray.podgrouper.workload import Settings

_NODES_AGE_S = 30.0


@dataclass(frozen=True, slots=True)
class AdmissionConfig:
    """Where the webhook listens, and where its certificate is kept."""

    keeper: KeeperConfig
    host: str = "0.0.0.0"
    port: int = 9443
    encode: EncodeConfig = field(default_factory=EncodeConfig)
    podgrouper: Settings = field(default_factory=Settings)
    runtime: str = runtime_class.DEFAULT  # RuntimeClass of pods that share GPUs; "" = none


class AdmissionService:
    """`start`, then `stop`. The port stays the caller's."""

    def __init__(self, port: Port, config: AdmissionConfig, clock: Clock | None = None) -> None:
        self.config = config
        # No gang is stamped here: it travels on the binding, and saves a call for every pod.
        plugins: list[Admission] = [
            *default_admission(config.encode, runtime=config.runtime),
            WorkloadAdmission(config.podgrouper, _remembered(_list_nodes)),
        ]
        self.server = WebhookServer(plugins, port, config.host, config.port)
        self.keeper = CertificateKeeper(config.keeper, self.server.use)
        self._runtime = Runtime(port, clock or SystemClock())
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises OSError if the port is taken."""
        self.server.start()
        self._runtime.add(self.keeper)
        self._thread = threading.Thread(
            target=self._runtime.run_forever, name="kai-certificate", daemon=True
        )
        self._thread.start()

    def problem(self) -> str:
        """ "" while the server and the keeper of its certificate run; else what is wrong."""
        if self._thread is None:
            return "the webhook is not started"
        return "" if self._thread.is_alive() else "the loop of the certificate has ended"

    def unready(self) -> str:
        """ "" while reviews are answered and the API server trusts us; else what is missing."""
        problem = self.server.problem()
        if problem or self.keeper.published:
            return problem
        return f"no webhook configuration {self.config.keeper.configuration} trusts us yet"

    def stop(self) -> None:
        self._runtime.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self._runtime.close()
        self.server.stop()


def _list_nodes(port: Port) -> list[Object]:
    try:
        return port.list(kinds.NODE).items
    except ApiError:
        return []


def _remembered(
    ask: Callable[[Port], list[Object]],
) -> Callable[[Port], Iterable[Object]]:
    """The same answer for half a minute: many workloads come at once."""
    known: list[tuple[float, list[Object]]] = []

    def nodes(port: Port) -> Iterable[Object]:
        now = time.monotonic()
        if not known or now - known[0][0] > _NODES_AGE_S:
            known[:] = [(now, ask(port))]
        return known[0][1]

    return nodes

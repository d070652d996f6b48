"""The agent at work: looks often, tells seldom, and says so when it cannot see.

The driver is asked in a thread of its own: a call that never comes back, as happens when a device
falls off the bus, leaves an agent that goes on to say that its driver does not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kai_ray.agent import cgroups, kubelet
from kai_ray.agent.device import Running
from kai_ray.agent.library import NoDriver
from kai_ray.agent.node import GpuNode
from kai_ray.agent.pods import PodsHere
from kai_ray.api.gpu_state import GpuDevice, GPUNodeStatus, GpuProcess
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Port
from kai_ray.gpu.node_use import HOST
from kai_ray.gpu.publish import Publisher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Seconds. What is read lies below `proc` and `sys`, which a test may put elsewhere."""

    node: str
    period_s: float = 30.0
    """How often figures are told, if they have changed."""
    look_s: float = 10.0
    """How often the driver is asked in between."""
    without_s: float = 60.0
    """How often a driver that is not there is looked for again."""
    hangs_s: float = 60.0
    """A call that takes longer is said not to come back."""
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    checkpoint: Path | None = None
    """The kubelet's own file about devices, where it may be read."""


class Agent:
    """`run` until told to stop; or `turn` by turn."""

    def __init__(
        self, config: AgentConfig, port: Port | None, now: Callable[[], float] = time.time
    ) -> None:
        """Without a port nobody is told, and pods have no names."""
        self.status = GPUNodeStatus(source="nvml", problem="the driver has not been asked yet")
        self._config = config
        self._port = port
        self._now = now
        self._gpus = GpuNode(config.sys)
        self._open = False
        self._pods = PodsHere(port, config.node)
        self._publisher = Publisher(port) if port is not None else None
        self._uid = ""
        self._hidden: set[int] = set()  # processes that could not be seen at the last report
        self._unseen: set[int] = set()  # nor at this one
        self._told = ""
        #: When the look began that is under way: on the clock that nobody sets, and on the wall's.
        self._began: tuple[float, float] | None = None
        self._reported_s = 0.0

    # ------------------------------------------------------------------ the driver's thread

    def look(self) -> bool:
        """One look; whether there is a driver to look at."""
        try:
            if not self._open:
                count = self._gpus.open()
                self._open, self._reported_s = True, self._now()
                log.info("driver %s, %d GPUs", self._gpus.driver or "unknown", count)
                if not count:
                    raise NoDriver("the driver knows no GPU on this node")
            self._gpus.look()
            return True
        except NoDriver as error:
            self._without(str(error))
            return False

    def report(self) -> None:
        """What is told next. `status` is put in its place as a whole."""
        self._hidden, self._unseen = self._unseen, set()
        given = self._given()
        try:
            devices = self._gpus.devices(self._whose, given)
        except NoDriver as error:
            self._without(str(error))
            return
        now = self._now()
        since = self._reported_s or now - self._config.period_s
        self._reported_s = now
        self.status = GPUNodeStatus(
            observed_at=rfc3339(now),
            period_seconds=round(min(max(now - since, 0.0), 86_400.0), 1),
            source="nvml",
            driver=self._gpus.driver,
            problem="; ".join(self._mapping_problems(devices)),
            devices=devices,
        )

    def _without(self, why: str) -> None:
        """No driver: the devices that were known go with it, and come back with it."""
        self._open = False
        self._gpus.close()
        self.status = GPUNodeStatus(
            observed_at=rfc3339(self._now()),
            source="nvml",
            driver=self._gpus.driver,
            problem=f"no GPU can be seen: {why}",
        )

    # ------------------------------------------------------------------ whose processes

    def _whose(self, running: Running) -> GpuProcess | None:
        found = GpuProcess(used_mib=running.used_mib, utilization=running.part)
        place = cgroups.place_of(running.pid, self._config.proc)
        if place is None:
            # It may just have ended: only one that is still there at the next report is hidden.
            self._unseen.add(running.pid)
            return found if running.pid in self._hidden else None
        if not place.uid:
            found.container = HOST
            return found
        found.uid = place.uid
        named = self._pods.known.get(place.uid)
        if named is not None:
            found.namespace, found.pod = named.namespace, named.name
            found.container = named.containers.get(place.container_id, "")
        found.container = found.container or place.container_id[:12]
        return found

    def _given(self) -> Callable[[str], list[str] | None]:
        """Who was given which device; None where nobody says, or in words that are not ours."""
        by_pod = self._told_of_pods()
        if by_pod is None:
            return lambda uuid: None

        @cache
        def owners() -> dict[str, list[str]] | None:
            names = self._gpus.names()
            found: dict[str, list[str]] = {}
            for uid, devices in sorted(by_pod.items()):
                for name in devices:
                    if name not in names:
                        return None
                    found.setdefault(names[name], []).append(uid)
            return found

        def given(uuid: str) -> list[str] | None:
            known = owners()
            return None if known is None else known.get(uuid, [])

        return given

    def _told_of_pods(self) -> dict[str, set[str]] | None:
        """UID -> what its devices are called: by the kubelet's file, else by all pods here."""
        known = self._pods.known
        path = self._config.checkpoint
        by_pod = kubelet.read(path) if path is not None else None
        if by_pod is None:
            told = {uid: pod.devices for uid, pod in known.items()}
            if self._port is None or self._pods.problem or any(d is None for d in told.values()):
                return None
            return {uid: set(found) for uid, found in told.items() if found}
        if not self._pods.problem:
            by_pod = {uid: found for uid, found in by_pod.items() if uid in known}
            for uid, pod in known.items():  # parts of cards are no business of the kubelet
                by_pod.setdefault(uid, set()).update(pod.devices or ())
        return by_pod

    def _mapping_problems(self, devices: list[GpuDevice]) -> list[str]:
        found: list[str] = []
        if self._pods.problem:
            found.append(self._pods.problem)
        if any(not p.uid and p.container != HOST for d in devices for p in d.processes or ()):
            found.append("processes cannot be told apart by pod: the agent needs hostPID")
        return found

    # ------------------------------------------------------------------ telling

    def tell(self) -> bool:
        """Writes what is new; whether the cluster could be told."""
        now = self._now()
        status = self.status
        began = self._began
        if began is not None and time.monotonic() - began[0] > self._config.hangs_s:
            status = GPUNodeStatus(
                observed_at=rfc3339(now),
                source="nvml",
                driver=self._gpus.driver,
                problem=f"no GPU can be seen: the driver does not answer since {rfc3339(began[1])}",
            )
        if status.problem != self._told:
            self._told = status.problem
            log.warning("%s", status.problem or "all is well again")
        if self._port is None or self._publisher is None:
            return False
        try:
            if not self._uid:
                self._uid = self._port.get(kinds.NODE, self._config.node)["metadata"]["uid"]
            self._publisher.publish(self._config.node, status, now, self._uid)
        except ApiError as error:
            log.warning("the cluster cannot be told: %s", error)
            return False
        return True

    def turn(self) -> None:
        """Look, report and tell once: for tests, and for `--once`."""
        self._pods.refresh()
        if self.look():
            self.report()
        self.tell()

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. The driver's thread is a daemon: one that hangs does not keep us."""
        driver = threading.Thread(target=self._drive, args=(stop,), name="nvml", daemon=True)
        driver.start()
        stop.wait(min(2.0, self._config.period_s))
        while not stop.is_set():
            self.tell()
            stop.wait(self._config.period_s)
        driver.join(timeout=2.0)
        self._pods.close()

    def close(self) -> None:
        self._gpus.close()
        self._pods.close()

    def _drive(self, stop: threading.Event) -> None:
        config, due_s = self._config, 0.0
        while not stop.is_set():
            self._began = (time.monotonic(), self._now())
            try:
                self._pods.refresh()
                seen = self.look()
                if seen and time.monotonic() >= due_s:
                    self.report()
                    due_s = time.monotonic() + config.period_s
            except Exception:  # what nobody thought of is no reason to stop telling
                log.exception("the driver could not be asked")
                seen = False
                self._without("this agent stumbled; its log says over what")
            self._began = None
            stop.wait(config.look_s if seen else config.without_s)
        self._gpus.close()

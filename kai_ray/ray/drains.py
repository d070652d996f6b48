"""Empties Ray nodes before their pods go: asks the head in threads of its own, remembers answers.

What is known of a worker is its last answer; every look that finds it old asks again. Nothing is
kept that a restart would miss: Ray answers the same of a node that drains already.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kai_ray.controllers.drainer import ENDED, Drain, DrainRequest, RayWorker
from kai_ray.ray.gcs import Gcs, GcsUnavailable, GrpcMissing
from kai_ray.ray.messages import RayNode

_THREADS = 8
_FRESH_S = 0.5
#: Tries after which a head that does not answer is given up.
_TRIES = 3
_KEPT = 10_000


class GcsDrainer:
    """`connect` opens a head by its address."""

    def __init__(self, connect: Callable[[str], Gcs] = Gcs) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kai-ray-drain")
        self._lock = threading.Lock()
        self._known: dict[str, Drain] = {}
        self._failed: dict[str, int] = {}
        self._asked_s: dict[str, float] = {}
        self._busy: set[str] = set()

    def look(
        self, request: DrainRequest, now_s: float, news: Callable[[], None]
    ) -> Mapping[str, Drain]:
        """See controllers/drainer.py."""
        slot = f"{request.cluster.namespace}/{request.cluster.name}"
        with self._lock:
            known = {w.uid: self._known.get(w.uid, Drain("asked")) for w in request.workers}
            open_ = tuple(w for w in request.workers if known[w.uid].word not in ENDED)
            fresh = now_s - self._asked_s.get(slot, -math.inf) < _FRESH_S
            if not open_ or slot in self._busy or (fresh and "asked" not in _words(known)):
                return known
            self._busy.add(slot)
            self._asked_s[slot] = now_s
        self._pool.submit(self._ask, slot, request, open_, news)
        return known

    def close(self) -> None:
        """Ends its threads; calls under way are waited for."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(
        self,
        slot: str,
        request: DrainRequest,
        workers: tuple[RayWorker, ...],
        news: Callable[[], None],
    ) -> None:
        try:
            found = self._answers(request, workers)
        except GrpcMissing as error:
            found = {worker.uid: Drain("unreachable", str(error)) for worker in workers}
        except GcsUnavailable as error:
            found = self._given_up(workers, str(error))
        except Exception as error:
            found = self._given_up(workers, f"{type(error).__name__}: {error}")
        with self._lock:
            changed = any(self._known.get(uid) != drain for uid, drain in found.items())
            self._known.update(found)
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))
            self._busy.discard(slot)
        if changed:
            news()

    def _given_up(self, workers: tuple[RayWorker, ...], why: str) -> dict[str, Drain]:
        found: dict[str, Drain] = {}
        for worker in workers:
            tries = self._failed[worker.uid] = self._failed.get(worker.uid, 0) + 1
            if tries >= _TRIES:
                self._failed.pop(worker.uid)
                found[worker.uid] = Drain("unreachable", why)
        return found

    def _answers(self, request: DrainRequest, workers: tuple[RayWorker, ...]) -> dict[str, Drain]:
        if not request.address:
            raise GcsUnavailable("no head of the cluster runs")
        found: dict[str, Drain] = {}
        with self._connect(request.address) as gcs:
            nodes = gcs.nodes()
            for worker in workers:
                self._failed.pop(worker.uid, None)
                found[worker.uid] = self._drain(gcs, worker, nodes, request)
        return found

    def _drain(
        self, gcs: Gcs, worker: RayWorker, nodes: list[RayNode], request: DrainRequest
    ) -> Drain:
        mine = nodes_of(worker, nodes)
        alive = [n for n in mine if n.status != "dead"]
        if not alive:
            return Drain("drained", "" if mine else "Ray does not know it")
        if all(n.status == "draining" for n in alive):
            return Drain("draining")
        for node in alive:
            deadline_ms = round(request.deadline_s * 1000)
            accepted, why = gcs.drain(node.node_id, request.message, deadline_ms)
            if not accepted:
                return Drain("refused", why)
        return Drain("draining")


def nodes_of(worker: RayWorker, nodes: list[RayNode]) -> list[RayNode]:
    """The Ray nodes that run in a pod: by its name, which KubeRay hands to Ray, else by its IP.

    A container that was started again is another node of the same pod.
    """
    named = [n for n in nodes if n.instance == worker.name]
    if named:
        return named
    return [n for n in nodes if not n.instance and worker.ip and n.ip == worker.ip]


def _words(known: Mapping[str, Drain]) -> set[str]:
    return {drain.word for drain in known.values()}

"""How well jobs use the GPUs that they hold: by the queue, and the jobs that leave most idle.

Going through the pods of all jobs is too much for each scrape of each Prometheus: it is done at
most once in `EVERY_S`, by the scrape that comes then.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import Metric

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.suspensions import group_texts
from kai_ray.metrics.families import gauge
from kai_ray.sight.sampling import BY_GROUP, job_uses, pods_of
from kai_ray.sight.sight import Sight

EVERY_S = 30.0
#: So many jobs have a series of their own.
MOST_IDLE = 50
#: Less than this much of a GPU is not worth a series.
_LEAST = 0.05


class IdleJob(NamedTuple):
    queue: str
    kind: str
    namespace: str
    name: str


class JobUse:
    """`setup` with the loop; then any thread may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_s = float("-inf")
        self._queues: dict[str, tuple[float, float]] = {}
        self._idle: list[tuple[IdleJob, float]] = []

    def setup(self, runtime: Runtime) -> None:
        pods = runtime.informer(kinds.POD)
        pods.add_index(BY_GROUP, group_texts)
        self._pods = pods_of(pods)
        self._clock = runtime.clock

    def families(self, sight: Sight) -> Iterator[Metric]:
        queues, idle = self._looked(sight)
        yield gauge(
            "kai_queue_known_gpus",
            "GPUs that jobs of a queue hold and of which it is known what they do",
            ("queue",),
            (((queue,), known) for queue, (known, _) in sorted(queues.items())),
        )
        yield gauge(
            "kai_queue_used_gpus",
            "Of those, how many they use: the sum of the parts of the time in which each is busy",
            ("queue",),
            (((queue,), used) for queue, (_, used) in sorted(queues.items())),
        )
        yield gauge(
            "kai_job_idle_gpus",
            f"GPUs held and not used, of the {MOST_IDLE} jobs that leave most of them idle",
            IdleJob._fields,
            idle,
        )

    def _looked(
        self, sight: Sight
    ) -> tuple[dict[str, tuple[float, float]], list[tuple[IdleJob, float]]]:
        with self._lock:
            now = self._clock.now()
            if not 0 <= now - self._read_s < EVERY_S:
                self._read_s = now
                self._look(sight, now)
            return self._queues, self._idle

    def _look(self, sight: Sight, now: float) -> None:
        queues: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        idle: list[tuple[IdleJob, float]] = []
        for uid, use, _ in job_uses(sight, self._pods, now):
            lives = sight.lives.of_job(uid)
            if not lives:
                continue
            life = lives[0]
            known, used = queues[life.queue]
            queues[life.queue] = (known + use.known, used + use.used)
            wasted = use.known - use.used
            if wasted >= _LEAST:
                job = IdleJob(life.queue, life.kind, life.namespace, life.name)
                idle.append((job, wasted))
        idle.sort(key=lambda found: -found[1])
        self._queues, self._idle = dict(queues), idle[:MOST_IDLE]

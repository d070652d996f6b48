"""Ray's part in a notice: its workers take no new work, finish or move what they have, and leave.

What Ray answers is told once on the gang. Where nobody can ask Ray that is told as well, and the
pods go without: `ray start` of Ray 2.57 and later drains its node on SIGTERM by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Key, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.drainer import ENDED, Drain, Drainer, DrainRequest
from kai_ray.controllers.events import Events
from kai_ray.controllers.notice_record import Notice
from kai_ray.controllers.ray_nodes import by_cluster, gcs_address, head_texts, is_worker, ray_worker
from kai_ray.controllers.victims import uid_of

_BY_HEAD = "drains-head"
_ASK_AGAIN_S = 1.0
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    irreversible: bool  # Ray has begun: a node that drains cannot be told to stay
    all_drained: bool  # all pods of the notice are workers, and all have left Ray
    nothing_to_wait_for: bool  # Ray will not do more than it has
    again_s: float


class Drains:
    """`drainer` None: nobody asks Ray."""

    def __init__(self, events: Events, drainer: Drainer | None) -> None:
        self._events = events
        self._drainer = drainer
        self._told: dict[tuple[str, str], None] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._pods.add_index(_BY_HEAD, head_texts)
        self._clusters = runtime.informer(kinds.RAY_CLUSTER)

    def concern(self, pods: Sequence[Object]) -> bool:
        """Whether Ray can be asked to empty any of these pods."""
        return self._drainer is not None and any(map(is_worker, pods))

    def look(
        self,
        group: Object,
        pods: Sequence[Object],
        notice: Notice,
        now: float,
        news: Callable[[], None],
    ) -> Seen:
        """Asks Ray, or asks how far it is."""
        if self._drainer is None:
            return Seen(False, False, True, float("inf"))
        words: list[str] = []
        workers = 0
        for key, mine in by_cluster(pods).items():
            workers += len(mine)
            request = self._request(key, mine, notice)
            states = self._drainer.look(request, now, news)
            for pod in mine:
                drain = states.get(uid_of(pod), Drain("asked"))
                words.append(drain.word)
                self._tell(group, pod, drain, notice)
        done = all(word in ENDED for word in words)
        return Seen(
            irreversible=any(word in ("draining", "drained") for word in words),
            all_drained=not notice.whole
            and workers == len(pods)
            and all(word == "drained" for word in words),
            nothing_to_wait_for=done,
            again_s=float("inf") if done else _ASK_AGAIN_S,
        )

    def _request(self, cluster: Key, pods: Sequence[Object], notice: Notice) -> DrainRequest:
        heads = self._pods.by_index(_BY_HEAD, f"{cluster.namespace}/{cluster.name}")
        obj = self._clusters.get(cluster.name, cluster.namespace)
        return DrainRequest(
            cluster,
            gcs_address(heads, obj),
            tuple(sorted(map(ray_worker, pods), key=lambda w: w.name)),
            notice.deadline_s,
            notice.message,
        )

    def _tell(self, group: Object, pod: Object, drain: Drain, notice: Notice) -> None:
        slot = uid_of(pod), drain.word
        if drain.word == "asked" or slot in self._told:
            return
        self._told[slot] = None
        if len(self._told) > _KEPT:
            self._told.pop(next(iter(self._told)))
        name = pod["metadata"]["name"]
        if drain.word == "draining":
            until = rfc3339(notice.deadline_s)
            self._events.tell(group, "RayDraining", f"Ray empties {name} until {until}")
        elif drain.word == "drained":
            self._events.tell(group, "RayDrained", f"Ray has emptied {name}")
        else:
            text = f"Ray was not asked to empty {name}: {drain.message}"
            self._events.tell(group, "RayNotDrained", text, warning=True)

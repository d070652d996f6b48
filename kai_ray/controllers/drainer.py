"""Asking Ray to empty nodes before their pods go: what controllers want of whoever does it.

The call goes to the head's GCS over the network, so it never happens on the loop: `look` answers
with what is known and sees to the rest, `kai_ray/ray/` has the one that really asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from kai_ray.cluster.port import Key

#: asked: no answer yet. draining: takes no new work. drained: has left Ray. refused, unreachable:
#: Ray says no, or nobody can ask it.
DrainWord = Literal["asked", "draining", "drained", "refused", "unreachable"]
ENDED: tuple[DrainWord, ...] = ("drained", "refused", "unreachable")


@dataclass(frozen=True, slots=True)
class RayWorker:
    """A pod as Ray may know it: by the instance ID that KubeRay gives it, its name, or its IP."""

    uid: str
    name: str
    ip: str


@dataclass(frozen=True, slots=True)
class DrainRequest:
    cluster: Key
    address: str  # host:port of the head's GCS; "" where no head is there
    workers: tuple[RayWorker, ...]
    deadline_s: float
    message: str


@dataclass(frozen=True, slots=True)
class Drain:
    """How far one worker is."""

    word: DrainWord
    message: str = ""


class Drainer(Protocol):
    def look(
        self, request: DrainRequest, now_s: float, news: Callable[[], None]
    ) -> Mapping[str, Drain]:
        """By UID how far each worker is. Never blocks; `news` is called, from any thread, when
        there is more to see. The same request may be made again, also after a restart."""
        ...

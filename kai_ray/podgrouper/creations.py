"""PodGroups that are to be created, sent side by side.

A burst of workloads becomes due at once, and the server answers one creation after the other in
the time that it would answer many. What one of them refuses is tried again alone, where its words
reach the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import ApiError, Key, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime


def is_pod_key(key: str) -> bool:
    return key.startswith("/Pod|")


class Creations:
    """`later` collects, `send` creates; who should look again is handed to `again`."""

    def __init__(self, again: Callable[[str], None]) -> None:
        """again: told the keys of workloads, and of those who were refused."""
        self._again = again
        self._waiting: dict[Key, tuple[Object, str]] = {}
        self._flying: set[Key] = set()
        self._alone: set[Key] = set()

    def later(self, group: Object, asker: str) -> bool:
        """Takes a creation in; False if it is to be made at once, where a refusal is heard.

        asker: the key of the workload or pod that wants it.
        """
        key = key_of(group)
        if key in self._alone:
            self._alone.discard(key)
            return False
        if key not in self._flying:
            self._waiting.setdefault(key, (group, asker))
        return True

    def send(self, runtime: Runtime, cache: Informer) -> None:
        """Creates what waits, unless it is there by now."""
        port, askers, writes = runtime.port, dict[Key, str](), list[Write]()
        for key, (group, asker) in self._waiting.items():
            if cache.get(key.name, key.namespace) is None:
                askers[key] = asker
                writes.append(Write(port.create, (kinds.POD_GROUP, group)))
        self._waiting = {}
        if writes:
            self._flying.update(askers)
            runtime.post(writes, partial(self._sent, askers, cache), urgent=True)

    def _sent(self, askers: dict[Key, str], cache: Informer, answers: list[Any]) -> None:
        self._flying.difference_update(askers)
        for (key, asker), answer in zip(askers.items(), answers, strict=True):
            if isinstance(answer, ApiError):
                self._alone.add(key)
            else:
                cache.remember(answer)
            if key in self._alone or not is_pod_key(asker):
                self._again(asker)

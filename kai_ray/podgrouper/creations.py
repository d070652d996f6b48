"""PodGroups that are to be created, sent side by side.

A burst of workloads becomes due at once, and the server answers one creation after the other in
the time that it would answer many. What one of them refuses is tried again alone, where its words
reach the workload.
"""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import ApiError, Key, Object, Port, Write, key_of


def is_pod_key(key: str) -> bool:
    return key.startswith("/Pod|")


class Creations:
    """`later` collects, `send` creates and answers which of the askers should look again."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[Object, str]] = {}
        self._alone: set[Key] = set()

    def later(self, group: Object, asker: str) -> bool:
        """Takes a creation in; False if it is to be made at once, where a refusal is heard.

        asker: the key of the workload or pod that wants it.
        """
        key = key_of(group)
        if key in self._alone:
            self._alone.discard(key)
            return False
        self._waiting.setdefault(key, (group, asker))
        return True

    def send(self, port: Port, cache: Informer) -> list[str]:
        """Creates what waits, unless it is there by now.

        Who was refused looks again; so do workloads, which may have more to say on their group.
        """
        waiting = {
            key: found
            for key, found in self._waiting.items()
            if cache.get(key.name, key.namespace) is None
        }
        self._waiting = {}
        answers = port.batch(
            [Write(port.create, (kinds.POD_GROUP, g)) for g, _ in waiting.values()]
        )
        askers: list[str] = []
        for (key, (_, asker)), answer in zip(waiting.items(), answers, strict=True):
            if isinstance(answer, ApiError):
                self._alone.add(key)
            else:
                cache.remember(answer)
            if key in self._alone or not is_pod_key(asker):
                askers.append(asker)
        return askers

"""Which pods depend on which claims, volumes, storage classes and ConfigMaps."""

from __future__ import annotations

from kai_ray.cluster.port import Key

from .volumes import Dependency


class Dependents:
    def __init__(self) -> None:
        self._pods: dict[Dependency, set[Key]] = {}
        self._depends: dict[Key, list[Dependency]] = {}

    def set(self, pod: Key, depends: list[Dependency]) -> None:
        """All that a pod depends on; [] forgets it."""
        for d in self._depends.pop(pod, ()):
            left = self._pods[d]
            left.discard(pod)
            if not left:
                del self._pods[d]
        if depends:
            named = list(dict.fromkeys(depends))  # a pod may name an object twice
            self._depends[pod] = named
            for d in named:
                self._pods.setdefault(d, set()).add(pod)

    def on(self, dependency: Dependency) -> list[Key]:
        return list(self._pods.get(dependency, ()))

    def on_kind(self, kind: str) -> list[Key]:
        """Pods that depend on any object of a kind."""
        return list({pod for d, pods in self._pods.items() if d[0] == kind for pod in pods})

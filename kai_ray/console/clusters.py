"""All clusters that the console looks at. One is home; the others are only looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kai_ray.cluster.port import NotFound
from kai_ray.console.cluster import Cluster


class Clusters:
    """By name, in the order given; the first that is home is asked where none is named."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._by_name = {cluster.name: cluster for cluster in clusters}
        if len(self._by_name) < len(clusters):
            raise ValueError("two clusters have the same name")
        self.home = next(cluster for cluster in clusters if cluster.home)

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Cluster:
        """ "" is the home one. Raises NotFound."""
        found = self._by_name.get(name) if name else self.home
        if found is None:
            known = ", ".join(self._by_name)
            raise NotFound(f"there is no context {name[:100]!r}: the console looks at {known}")
        return found

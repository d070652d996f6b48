"""The workload that the user wrote, for one that an operator made of it: a TrainJob for its JobSet.

Lists, histories, messages and links all call a job by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .port import Object
from .suspension import SUSPEND

if TYPE_CHECKING:
    from .runtime import Runtime

#: Kinds whose children are jobs of their own.
SERIES = ("CronJob", "RayCronJob")
#: Owners above owners, at most.
DEEPEST = 8

#: (apiVersion, kind, namespace, name)
Name = tuple[str, str, str, str]
#: The object itself; None where it is gone or its kind is not watched.
Known = Callable[[Name], Object | None]


def wrapper(key: Name, known: Known) -> Name:
    """As far up as both ends are known. Runs of a CronJob stay apart."""
    found = known(key)
    for _ in range(DEEPEST):
        above = next(
            (
                (r["apiVersion"], r["kind"], key[2], r["name"])
                for r in ((found or {}).get("metadata") or {}).get("ownerReferences") or []
                if r.get("controller") and r["kind"] not in SERIES
            ),
            None,
        )
        found = known(above) if above is not None else None
        if above is None or found is None:
            return key
        key = above
    return key


def cached(runtime: Runtime) -> Known:
    """By the caches of kinds that are watched anyway."""
    caches = {
        (resource.api_version, resource.kind): runtime.informer(resource)
        for resource in SUSPEND
        if resource.kind not in SERIES
    }

    def known(name: Name) -> Object | None:
        cache = caches.get(name[:2])
        return cache.get(name[3], name[2]) if cache is not None else None

    return known

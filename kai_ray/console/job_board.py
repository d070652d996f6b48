"""Every job as a row, kept up to date by what has changed.

The informers' handlers only note which gangs and workloads have changed; rows are made again when
somebody looks, in the thread of whoever looks. So a loop that shares its caches pays a note in a
set for each change, and ten thousand jobs cost nothing as long as they stand still.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Key, Object, Resource, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.cluster.wrappers import Name, wrapper
from kai_ray.console.job_rows import JobRow, shown
from kai_ray.sight.jobs import pods as P
from kai_ray.sight.jobs.listing import Job, job_of
from kai_ray.sight.jobs.owners import controlled, owner_of

#: Kinds whose own status says how a job stands; those with a switch are listed while suspended.
OWNERS: tuple[Resource, ...] = (
    *SUSPEND,
    R.LEADER_WORKER_SET,
    R.DEPLOYMENT,
    R.STATEFUL_SET,
)


class JobBoard:
    """`attach` once, then `rows`. Safe from any thread."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change that was seen; the rows may be older until somebody looks."""
        self._lock = threading.RLock()
        self._informers: dict[Resource, Informer] = {}
        self._rows: dict[Name, JobRow] = {}
        self._group_jobs: dict[Key, Name] = {}
        self._job_groups: dict[Name, set[Key]] = defaultdict(set)
        self._pods: dict[Key, set[Key]] = {}  # gang -> pods
        self._changed_groups: set[Key] = set()
        self._changed_owners: set[Name] = set()
        self._list: tuple[int, list[JobRow]] = (-1, [])

    def attach(self, runtime: Runtime) -> None:
        """Follows the caches of a runtime. What is there already is taken in at once."""
        for resource in (R.PRIORITY_CLASS, *OWNERS, R.POD_GROUP, R.POD):
            self._informers[resource] = runtime.informer(resource)
        for resource in OWNERS:
            self._informers[resource].on_change(partial(self._owner_changed, resource))
        self._informers[R.PRIORITY_CLASS].on_change(self._priorities_changed)
        self._informers[R.POD_GROUP].on_change(self._group_changed)
        self._informers[R.POD].on_change(self._pod_changed)

    # ------------------------------------------------------------------ in the loop's thread

    def _owner_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        name = (resource.api_version, resource.kind, meta.get("namespace") or "", meta["name"])
        self._changed_owners.add(name)
        self.version += 1

    def _priorities_changed(self, old: Object | None, new: Object | None) -> None:
        self._changed_groups.update(list(self._group_jobs))
        self.version += 1

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        self._changed_groups.add(key_of(new or old or {}))
        self.version += 1

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod is not None and (name := P.gang_name(pod)):
                gang = Key(pod["metadata"]["namespace"], name)
                self._pods.setdefault(gang, set()).add(key_of(pod))
                self._changed_groups.add(gang)
                self.version += 1

    # ------------------------------------------------------------------ in a reader's thread

    def rows(self) -> list[JobRow]:
        """Every job, by namespace, name and kind; shared, not to be changed."""
        with self._lock:
            version = self.version
            if self._list[0] != version:
                if self._refresh():
                    self._place()
                names = sorted(self._rows, key=_order)
                self._list = (version, [self._rows[name] for name in names])
            return self._list[1]

    def find(self, namespace: str, kind: str, name: str, api_version: str = "") -> JobRow | None:
        """A job by the words of its address; of two API groups the first by name."""
        with self._lock:
            self.rows()
            for key in sorted(self._rows):
                if key[1:] == (kind, namespace, name) and api_version in ("", key[0]):
                    return self._rows[key]
        return None

    def job_of_pod(self, pod: Object) -> JobRow | None:
        """The job whose gang a pod says it belongs to, as of the last look."""
        gang = P.gang_name(pod)
        return self.of_gang(Key(pod["metadata"]["namespace"], gang)) if gang else None

    def of_gang(self, gang: Key) -> JobRow | None:
        """The job that a PodGroup belongs to, as of the last look."""
        name = self._group_jobs.get(gang)
        return self._rows.get(name) if name else None

    def groups(self, row: JobRow) -> list[Object]:
        """The PodGroups of a job."""
        with self._lock:
            keys = sorted(self._job_groups.get(_name(row.job), ()))
        return list(self._present(R.POD_GROUP, keys))

    def pods(self, group: Object) -> list[Object]:
        """The pods of a gang, by name."""
        return self._members(key_of(group))

    def owner(self, row: JobRow) -> Object | None:
        return self._object(_name(row.job))

    def waiting(self) -> Counter[str]:
        """Waiting jobs by queue, those of the queues below not counted."""
        return Counter(
            row.job.queue for row in self.rows() if row.job.status in ("Waiting", "Evicted")
        )

    def _members(self, gang: Key) -> list[Object]:
        keys = self._pods.get(gang, set())
        found: list[Object] = []
        for key in sorted(set(keys)):
            pod = self._member(gang, key)
            if pod is None:
                keys.discard(key)
                pod = self._member(gang, key)  # one of that name may have come meanwhile
                if pod is None:
                    continue
                keys.add(key)
            found.append(pod)
        return found

    def _member(self, gang: Key, key: Key) -> Object | None:
        pod = self._informers[R.POD].get(key.name, key.namespace)
        return pod if pod is not None and P.gang_name(pod) == gang.name else None

    def _refresh(self) -> bool:
        """Makes the rows of what has changed; whether anything has."""
        owners = drained(self._changed_owners)
        jobs = {wrapper(name, self._object) for name in owners} | owners
        for key in drained(self._changed_groups):
            before = self._group_jobs.get(key)
            if before is not None:
                jobs.add(before)
            group = self._informers[R.POD_GROUP].get(key.name, key.namespace)
            if group is None:
                self._forget(key, before)
                continue
            api_version, kind, name = owner_of(group)
            now = wrapper((api_version, kind, key.namespace, name), self._object)
            if now != before:
                self._forget(key, before)
                self._group_jobs[key] = now
            self._job_groups[now].add(key)
            jobs.add(now)
        priorities = {
            c["metadata"]["name"]: int(c.get("value", 0)) for c in self._informers[R.PRIORITY_CLASS]
        }
        for name in jobs:
            self._make(name, priorities)
        return bool(jobs)

    def _forget(self, group: Key, job: Name | None) -> None:
        self._group_jobs.pop(group, None)
        if job is not None:
            self._job_groups[job].discard(group)
        # Pods may outlive their PodGroup, which is then made again.
        gone = self._informers[R.POD_GROUP].get(group.name, group.namespace) is None
        if gone and not self._members(group):
            self._pods.pop(group, None)

    def _make(self, name: Name, priorities: dict[str, int]) -> None:
        keys = self._job_groups.get(name) or set()
        groups = list(self._present(R.POD_GROUP, sorted(keys)))
        known = self._known(name)
        if not groups:
            self._job_groups.pop(name, None)
            listed = known is not None and is_suspended(*known) and not controlled(known[1])
            if not listed:
                self._rows.pop(name, None)
                return
        members = {(key_of(g).namespace, key_of(g).name): self.pods(g) for g in groups}
        job = job_of(name, groups, members, known, priorities)
        self._rows[name] = JobRow(job, shown(job, groups, known[1] if known else None))

    def _place(self) -> None:
        """Numbers the waiting jobs of each queue: higher priority first, then older, then name."""
        lines: dict[str, list[JobRow]] = defaultdict(list)
        for row in self._rows.values():
            row.shown.position = None
            if row.job.status in ("Waiting", "Evicted"):
                lines[row.job.queue].append(row)
        for line in lines.values():
            line.sort(key=lambda r: (-r.job.priority, r.job.created, r.job.name))
            for place, row in enumerate(line, 1):
                row.shown.position = place

    def _known(self, name: Name) -> tuple[Resource, Object] | None:
        resource = R.BY_KIND.get((name[0], name[1]))
        informer = self._informers.get(resource) if resource else None
        obj = informer.get(name[3], name[2]) if informer else None
        return (resource, obj) if resource and obj is not None else None

    def _object(self, name: Name) -> Object | None:
        found = self._known(name)
        return found[1] if found else None

    def _present(self, resource: Resource, keys: Iterable[Key]) -> Iterator[Object]:
        informer = self._informers[resource]
        for key in keys:
            obj = informer.get(key.name, key.namespace)
            if obj is not None:
                yield obj


def drained(changed: set[Any]) -> set[Any]:
    """What is in the set, taken out of it; what others add meanwhile is in it still."""
    found: set[Any] = set()
    while changed:
        found.add(changed.pop())
    return found


def _order(name: Name) -> tuple[str, str, str, str]:
    return name[2], name[3], name[1], name[0]


def _name(job: Job) -> Name:
    return job.api_version, job.kind, job.namespace, job.name

"""What a rule is given: the object, its owners, perhaps a pod of it, and a way to read others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kai_ray.api import labels as keys

from .groups import Group
from .values import Object, namespace_of

#: Stands for a UID, or the random part of a name, that an API server has not given yet.
UNKNOWN_UID = "<uid>"
UNKNOWN_NAME = "<id>"


class Reader(Protocol):
    """Look-ups a rule may make. They return what can be read; absent and forbidden look alike."""

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None: ...

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Object]: ...

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Object]:
        """The objects of a kind that carry an owner reference to `uid`."""
        ...


class NoReader:
    """Knows nothing."""

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        return None

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        return ()

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Object]:
        return ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Knobs of the podgrouper; the defaults are KAI's."""

    queue_label: str = keys.QUEUE
    node_pool_label: str = keys.NODE_POOL
    default_queue: str = keys.DEFAULT_QUEUE
    #: (namespace, name) of the ConfigMap with default priorities per kind, or None.
    defaults_config_map: tuple[str, str] | None = None
    #: Keep using groups that older versions made for single pods.
    search_legacy: bool = True
    knative_gang: bool = True
    scheduler_names: tuple[str, ...] = (keys.SCHEDULER_NAME,)


@dataclass(frozen=True, slots=True)
class Workload:
    """`subject` owns the group; `owners` is the chain of the pods, nearest first, top last.

    `planning`: nothing exists yet, so what an operator would create is derived from the templates.
    """

    subject: Object
    owners: tuple[Object, ...] = ()
    pod: Object | None = None
    reader: Reader = field(default_factory=NoReader)
    settings: Settings = Settings()
    planning: bool = False

    @property
    def top(self) -> Object:
        return self.owners[-1] if self.owners else self.subject

    @property
    def namespace(self) -> str:
        """The pods' namespace: KAI takes it from the pod."""
        return namespace_of(self.pod if self.pod is not None else self.subject)

    def about(self, subject: Object) -> Workload:
        return replace(self, subject=subject)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod belongs: the group's name, and the leaf of its tree (None: it has no tree)."""

    group: str
    subgroup: str | None = None


Placer = Callable[[Workload, Object, Sequence[Group]], Place]


def first_group(workload: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    """The placer of kinds with one flat group."""
    return Place(groups[0].name)


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of owner is grouped.

    `groups` derives all groups of the object, or the one of `workload.pod` when `per_pod` is set:
    such groups depend on the pod and are derived for each. `defaults` fills in what the operator's
    admission fills in, so that objects which never saw it read the same.
    """

    groups: Callable[[Workload], list[Group]]
    place: Placer = first_group
    per_pod: bool = False
    defaults: Callable[[Object], Object] | None = None

"""What is known of one gang of a job at present."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object
from kai_ray.controllers.owners import Owner
from kai_ray.sight.events import JobEvent, What
from kai_ray.sight.placed import NOWHERE, Place

Phase = Literal["waiting", "started", "ready", "suspended", "ended"]


@dataclass(slots=True)
class Life:
    """Changed by the loop only; others read single fields of it."""

    key: Key
    group_uid: str
    uid: str
    name: str
    kind: str
    api_version: str
    queue: str
    user: str
    pool: str
    created_s: float
    phase: Phase = "waiting"
    since_s: float = 0.0  # of the phase, or of the reason while it waits
    reason: str = ""
    message: str = ""
    gpus: float = 0.0
    place: Place = NOWHERE
    types: tuple[tuple[str, str, float], ...] = ()
    starts: int = 0
    evictions: int = 0
    evicted_s: float | None = None
    noticed: str = ""
    nominated: bool = False
    placed: bool = False  # its place was seen, and not only told by its PodGroup
    leaving: tuple[str, str, str] | None = None  # part of it: reason, message, for whom
    lost_s: float | None = None  # when it was seen to hold or run less than before
    broken: bool = False  # ... and that its minimum did not run any more

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def job(self) -> str:
        """ "RayJob namespace/name"."""
        return f"{self.kind} {self.key.namespace}/{self.name}"

    @property
    def runs(self) -> bool:
        return self.phase in ("started", "ready")

    def event(
        self,
        at_s: float,
        what: What,
        reason: str = "",
        message: str = "",
        for_whom: str = "",
        nodes: tuple[str, ...] | None = None,
        replayed: bool = False,
    ) -> JobEvent:
        return JobEvent(
            at_s=at_s,
            what=what,
            uid=self.uid,
            namespace=self.key.namespace,
            name=self.name,
            kind=self.kind,
            api_version=self.api_version,
            group=self.key.name,
            queue=self.queue,
            user=self.user,
            pool=self.pool,
            gpus=self.gpus,
            held=self.place.gpus,
            pods=self.place.pods,
            reason=reason,
            message=message,
            nodes=self.place.nodes if nodes is None else nodes,
            types=self.types,
            for_whom=for_whom,
            replayed=replayed,
        )


def life_of(group: Object, key: Key, owner: Owner | None, created_s: float) -> Life:
    """Of a PodGroup that is seen for the first time; `owner` is the job that it is of."""
    meta = group["metadata"]
    uid = meta.get("uid") or ""
    if owner is None:
        who = (uid, key.name, kinds.POD_GROUP.kind, kinds.POD_GROUP.api_version)
    else:
        resource = owner.resource
        who = (owner.uid or uid, owner.key.name, resource.kind, resource.api_version)
    made = Life(key, uid, *who, "", "", "", created_s)
    refresh(made, group)
    return made


def queue_of(group: Object) -> str:
    return str((group.get("spec") or {}).get("queue") or "")


def refresh(life: Life, group: Object) -> None:
    """Takes over what may change on a PodGroup."""
    meta = group["metadata"]
    labels = _texts(meta.get("labels"))
    life.queue = queue_of(group)
    life.user = labels.get(names.USER) or _texts(meta.get("annotations")).get(names.USER) or ""
    life.pool = labels.get(names.NODE_POOL) or ""


def _texts(found: object) -> dict[str, str]:
    return found if isinstance(found, dict) else {}

"""The events of a job: what Kubernetes has noted about it, its gangs and its pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Port
from kai_ray.sdk import html
from kai_ray.sdk.finding import Found
from kai_ray.sight.jobs import pods as P

COLUMNS = ("AT", "TYPE", "REASON", "OBJECT", "MESSAGE")


@dataclass(frozen=True)
class Event:
    """Something that happened: `type` is Normal or Warning, `object` of whom it is said.

    >>> job = kai.submit(kai_ray.BatchJob("said", image="busybox", gpus=1), queue="vision")
    >>> job.wait(until="started")
    Job(job/said in default: Running)
    >>> "Scheduled" in {event.reason for event in job.events()}
    True
    """

    at: datetime | None
    type: str
    reason: str
    message: str
    object: str
    count: int

    def __str__(self) -> str:
        when = f"{self.at:%Y-%m-%d %H:%M:%S}" if self.at else "-"
        return f"{when}  {self.reason}  {self.object}: {self.message}"


class EventList(list[Event]):
    """Events, the oldest first; a table where it is shown.

    >>> job = kai.submit(kai_ray.BatchJob("told", image="busybox", gpus=1), queue="vision")
    >>> print(job.wait(until="started").events())
    AT ...
    """

    def __repr__(self) -> str:
        return html.text(COLUMNS, self._rows()) if self else "no events"

    def _repr_html_(self) -> str:
        return html.table(COLUMNS, self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{e.at:%Y-%m-%d %H:%M:%S}" if e.at else "-",
                e.type,
                e.reason,
                e.object,
                e.message if e.count < 2 else f"{e.message} ({e.count} times)",
            )
            for e in self
        ]


def events(port: Port, found: Found) -> EventList:
    """One list of the namespace's events, and what of it is about this job."""
    about = {(found.resource.kind, found.name): found.object["metadata"].get("uid")}
    gangs = {gang.name for gang in found.job.gangs} if found.job else set()
    about |= {(R.POD_GROUP.kind, name): None for name in gangs}
    for pod in port.list(R.POD, found.namespace).items if gangs else ():
        if P.gang_name(pod) in gangs:
            about[R.POD.kind, pod["metadata"]["name"]] = pod["metadata"].get("uid")
    heard: dict[tuple[str, str], Event] = {}
    for event in port.list(R.EVENT, found.namespace).items:
        of = event.get("involvedObject") or {}
        key = (of.get("kind", ""), of.get("name", ""))
        if key in about and of.get("uid") in (None, "", about[key] or of.get("uid")):
            one = _event(event)
            # The same news is told on the user's object and on its gang: once is enough here.
            if (one.reason, one.message) not in heard or key[0] == found.resource.kind:
                heard[one.reason, one.message] = one
    return EventList(sorted(heard.values(), key=lambda e: e.at.timestamp() if e.at else 0.0))


def _event(event: Object) -> Event:
    of = event["involvedObject"]
    when = (
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return Event(
        at=datetime.fromisoformat(when) if when else None,
        type=event.get("type") or "Normal",
        reason=event.get("reason") or "",
        message=" ".join(str(event.get("message") or "").split()),
        object=f"{of.get('kind', '').lower()}/{of.get('name', '')}",
        count=int(event.get("count") or 1),
    )

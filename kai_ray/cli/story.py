"""What happened to each job while somebody watched: when it waited and why, started and ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.sight.jobs.listing import ENDED, Job

#: The reason of a gang whose pods are still being made: nobody waits for that.
INCOMPLETE = "GangIncomplete"


@dataclass(frozen=True)
class Away:
    """A time for which a job had to give its place to another; `back_s` None: it is not back."""

    rule: str
    message: str
    left_s: float
    back_s: float | None = None


@dataclass(frozen=True)
class Chapter:
    """One job's story. Times are seconds since the beginning; None: it has not come to that."""

    job: Job
    upstream: bool
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    waited_for: str = ""  # the first reason given
    message: str = ""
    pods: int = 0  # at its largest: pods of an ended job may be gone
    gpus: float = 0.0
    nodes: tuple[str, ...] = ()
    away: tuple[Away, ...] = ()

    @property
    def gang(self) -> str:
        pods = f"{self.pods} pod" + ("s" if self.pods != 1 else "")
        return f"{pods}, {output.number(self.gpus)} GPU" + ("s" if self.gpus != 1 else "")

    @property
    def wait_s(self) -> float | None:
        return None if self.started_s is None else self.started_s - self.submitted_s

    @property
    def run_s(self) -> float | None:
        if self.started_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.started_s


@dataclass
class Story:
    """Told look by look: `look` takes the jobs as they are and returns what is new, in words.

    Workloads are known by (kind, name). `submitted` says when, and whether they are upstream's.
    """

    submitted: dict[tuple[str, str], tuple[float, bool]] = field(default_factory=dict)
    chapters: dict[tuple[str, str], Chapter] = field(default_factory=dict)

    def submit(self, key: tuple[str, str], now_s: float, upstream: bool = False) -> None:
        self.submitted[key] = (now_s, upstream)

    def look(self, jobs: Sequence[Job], now_s: float) -> list[str]:
        news: list[str] = []
        for job in jobs:
            key = (job.kind, job.name)
            before = self.chapters.get(key)
            after = self._next(before, job, now_s)
            self.chapters[key] = after
            line = _news(before, after)
            if line:
                news.append(f"{now_s:5.1f}s  {line}")
        return news

    def _next(self, before: Chapter | None, job: Job, now_s: float) -> Chapter:
        if before is None:
            when, upstream = self.submitted.get((job.kind, job.name), (now_s, False))
            before = Chapter(job, upstream, when)
        chapter = replace(before, job=job)
        if chapter.started_s is None:
            if job.reason not in ("", INCOMPLETE) and not chapter.waited_for:
                chapter = replace(chapter, waited_for=job.reason, message=job.message)
            if job.status in ("Running", *ENDED):
                chapter = replace(chapter, started_s=now_s)
        if job.nodes and len(job.nodes) >= len(chapter.nodes):
            chapter = replace(chapter, nodes=job.nodes)
        chapter = replace(
            chapter, pods=max(chapter.pods, job.wanted), gpus=max(chapter.gpus, job.gpus)
        )
        chapter = replace(chapter, away=_away(chapter, now_s))
        if chapter.ended_s is None and job.status in ENDED:
            chapter = replace(chapter, ended_s=now_s)
        return chapter

    def unsettled(self, services: Collection[str]) -> list[str]:
        """What has not come to its end: jobs must succeed, kinds in `services` must run."""
        bad = [f"{kind} {name} (no gang)" for kind, name in self.submitted.keys() - self.chapters]
        for chapter in self.chapters.values():
            job = chapter.job
            if job.status != ("Running" if job.kind in services else "Succeeded"):
                bad.append(f"{job.kind} {job.name} ({job.status})")
        return sorted(bad)

    def settled(self, services: Collection[str]) -> bool:
        """Whether nothing more will happen: all that ends has ended, well or not."""
        return self.submitted.keys() <= self.chapters.keys() and all(
            c.job.status in ENDED or (c.job.kind in services and c.job.status == "Running")
            for c in self.chapters.values()
        )

    def evicted(self) -> list[Chapter]:
        """Those that had to leave, in the order in which they first did."""
        gone = [c for c in self.chapters.values() if c.away]
        return sorted(gone, key=lambda c: c.away[0].left_s)

    def waited(self) -> list[Chapter]:
        """Those that had to wait for a reason and started afterwards."""
        return [c for c in self.chapters.values() if c.waited_for and c.started_s is not None]


def _away(chapter: Chapter, now_s: float) -> tuple[Away, ...]:
    job, away = chapter.job, chapter.away
    out = bool(away) and away[-1].back_s is None
    if job.evicted is not None and not out:
        return (*away, Away(job.evicted.rule, job.evicted.message, now_s))
    if out and job.status in ("Running", *ENDED):
        return (*away[:-1], replace(away[-1], back_s=now_s))
    return away


def brief(message: str) -> str:
    """The first two facts of a message; `kai explain` has them all."""
    return "; ".join(message.split("; ")[:2])


def _news(before: Chapter | None, after: Chapter) -> str:
    job = after.job
    was = (before.job.status, before.job.reason) if before else ("", "")
    if was == (job.status, job.reason):
        return ""
    who = f"{job.kind} {job.name}"
    if job.evicted is not None:
        return f"{who}: {job.evicted.message}" if was[0] != "Evicted" else ""
    if job.status == "Running" and was[0] != "Running" and after.away:
        return f"{who} is back on {', '.join(job.nodes)}"
    if job.status == "Waiting" and was[0] == "Running":
        return f"{who} gave its place to others and is back in queue {job.queue}"
    if job.status == "Waiting":
        if not job.reason or job.reason == INCOMPLETE:
            return f"{who} waits in queue {job.queue}" if before is None else ""
        return f"{who} in queue {job.queue}: {brief(job.message)} ({job.reason})"
    if job.status == "Running" and was[0] != "Running":
        return f"{who} runs on {', '.join(job.nodes)} ({after.gang})"
    if job.status in ENDED and was[0] not in ENDED:
        return f"{who} {job.status.lower()}"
    return ""


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}s"


SUMMARY: tuple[Column[Chapter], ...] = (
    Column("WORKLOAD", lambda c: f"{c.job.kind} {c.job.name}"),
    Column("QUEUE", lambda c: c.job.queue),
    Column("GANG", lambda c: c.gang),
    Column("WAITED", lambda c: _seconds(c.wait_s)),
    Column("FOR", lambda c: c.waited_for),
    Column("RAN", lambda c: _seconds(c.run_s)),
    Column("NODES", lambda c: ", ".join(c.nodes)),
    Column("STATUS", lambda c: c.job.status),
)


def evictions(story: Story) -> list[tuple[Chapter, Away]]:
    """Each eviction, in the order in which they happened."""
    found = [(chapter, away) for chapter in story.evicted() for away in chapter.away]
    return sorted(found, key=lambda pair: pair[1].left_s)


EVICTIONS: tuple[Column[tuple[Chapter, Away]], ...] = (
    Column("WORKLOAD", lambda e: f"{e[0].job.kind} {e[0].job.name}"),
    Column("QUEUE", lambda e: e[0].job.queue),
    Column("RULE", lambda e: e[1].rule),
    Column("AWAY", lambda e: _seconds(None if e[1].back_s is None else e[1].back_s - e[1].left_s)),
    Column("WHY", lambda e: e[1].message),
)

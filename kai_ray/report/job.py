"""The report of one job: what it waited for, where it ran, who took its place, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kai_ray.history.job_event import JobEvent
from kai_ray.history.reader import HistoryReader
from kai_ray.history.rows import JobRow
from kai_ray.report.curves import Points, points, ratio
from kai_ray.report.lifetime import Departure, Lifetime, Stretch, lifetime, runs
from kai_ray.report.prices import Cost, Prices

_HOUR_S = 3600.0
#: Kinds that histories written by earlier versions know as what their operator makes of them.
_MADE_AS = {"TrainJob": "JobSet"}
#: Shorter waits are passed over.
_NOTICED_S = 0.5
#: The use is known a sample late.
_NEGLIGIBLE = 0.05


class NoSuchJob(LookupError):
    """The history knows no such job."""


@dataclass(frozen=True, slots=True)
class Wait:
    """All the time it waited for one reason. `message`: the words of the last time."""

    reason: str
    message: str
    seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class Run:
    """From one start to the next stop; `ended`: why it stopped, "" while it runs."""

    since_s: float
    until_s: float
    nodes: tuple[str, ...]
    gpus: float  # most at a time
    gpu_hours: float
    ended: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """Hours are GPU hours. `used_hours` is of `known_hours`, the part of those held of which the
    use is known; None: of none. `cost` None: none of it has a price."""

    job: JobRow
    until_s: float
    stretches: tuple[Stretch, ...]
    waits: tuple[Wait, ...]
    runs: tuple[Run, ...]
    departures: tuple[Departure, ...]
    warnings: tuple[tuple[float, str, str], ...]
    waited_s: float
    ran_s: float
    suspended_s: float
    asked_hours: float
    held_hours: float
    used_hours: float | None
    known_hours: float
    by_type: tuple[tuple[str, float], ...]
    cost: float | None
    currency: str
    use: Points
    """Used part of what it held and is known, 0 to 1."""
    notes: tuple[str, ...]

    @property
    def restarts(self) -> int:
        return max(0, len(self.runs) - 1)

    @property
    def evictions(self) -> int:
        return sum(1 for d in self.departures if d.rule != "Interrupted")


def find(reader: HistoryReader, namespace: str, name: str, kind: str = "") -> JobRow:
    """The youngest job of that name. Raises NoSuchJob, HistoryError."""
    found = reader.find(namespace, name, kind)
    if not found and kind in _MADE_AS:
        found = reader.find(namespace, name, _MADE_AS[kind])
    if found:
        return found[0]
    others = sorted({row.kind for row in reader.find(namespace, name)}) if kind else []
    what = f"{kind} {name!r}" if kind else f"job {name!r}"
    hint = f", but {' and '.join(others)} of that name" if others else ""
    raise NoSuchJob(f"the history knows no {what} in namespace {namespace!r}{hint}")


def job_report(
    reader: HistoryReader, job: JobRow, now_s: float, prices: Prices | None = None
) -> JobReport:
    """Raises HistoryError."""
    events = reader.events(job.uid)
    # Events are written at once, samples less often: the life of a job may be ahead of them.
    until_s = max([now_s, *(e.at_s for e in events[-1:])]) if job.ended_s is None else job.ended_s
    life = lifetime(events, until_s)
    cost = Cost(prices)
    types: dict[str, float] = {}
    for product, _, gpu_s in job.by_type:
        types[product] = types.get(product, 0.0) + gpu_s / _HOUR_S
        cost.add(product, gpu_s / _HOUR_S)
    known = job.known_gpu_s > 0
    return JobReport(
        job=job,
        until_s=until_s,
        stretches=tuple(life.stretches),
        waits=tuple(_waits(life.stretches)),
        runs=tuple(_runs(life, job)),
        departures=tuple(life.departures),
        warnings=tuple(life.warnings),
        waited_s=_seconds(life, "waiting"),
        ran_s=_seconds(life, "running"),
        suspended_s=_seconds(life, "suspended"),
        asked_hours=sum(s.asked * s.seconds for s in life.stretches) / _HOUR_S,
        held_hours=job.held_gpu_s / _HOUR_S,
        used_hours=job.used_gpu_s / _HOUR_S if known else None,
        known_hours=job.known_gpu_s / _HOUR_S,
        by_type=tuple(sorted(types.items())),
        cost=cost.total,
        currency=prices.currency if prices is not None else "",
        use=_use(reader, job, until_s),
        notes=tuple(n for n in (cost.gap(), _unknown_use(job), _trimmed(job, events)) if n),
    )


def _seconds(life: Lifetime, phase: str) -> float:
    return sum(s.seconds for s in life.stretches if s.phase == phase)


def _waits(stretches: Sequence[Stretch]) -> list[Wait]:
    """By reason, the longest first."""
    found: dict[str, Wait] = {}
    before: Stretch | None = None
    for stretch in stretches:
        if stretch.phase == "waiting":
            again = before is not None and before.phase == "waiting"
            again = again and before is not None and before.reason == stretch.reason
            old = found.get(stretch.reason, Wait(stretch.reason, "", 0.0, 0))
            found[stretch.reason] = Wait(
                stretch.reason,
                stretch.message or old.message,
                old.seconds + stretch.seconds,
                old.times + (not again),
            )
        before = stretch
    waits = [w for w in found.values() if w.seconds >= _NOTICED_S]
    return sorted(waits, key=lambda w: (-w.seconds, w.reason))


def _runs(life: Lifetime, job: JobRow) -> list[Run]:
    found: list[Run] = []
    for stretches in runs(life.stretches):
        until_s = stretches[-1].until_s
        nodes = sorted({n for s in stretches for n in s.nodes})
        found.append(
            Run(
                stretches[0].since_s,
                until_s,
                tuple(nodes),
                max(s.held for s in stretches),
                sum(s.held * s.seconds for s in stretches) / _HOUR_S,
                _why_stopped(life, job, until_s),
            )
        )
    return found


def _why_stopped(life: Lifetime, job: JobRow, at_s: float) -> str:
    for departure in life.departures:
        if departure.at_s == at_s:
            return departure.rule
    after = next((s for s in life.stretches if s.since_s == at_s), None)
    if after is None:
        return job.outcome
    return {"suspended": "Suspended", "ended": job.outcome or after.reason}.get(after.phase, "")


def _use(reader: HistoryReader, job: JobRow, until_s: float) -> Points:
    series = reader.gpu(job.uid, job.created_s, until_s)
    if not series.names:
        return ()
    columns = series.of(series.names[0])
    times, step_s = series.at_s.tolist(), series.step_s
    known = points(times, columns["known"].tolist(), step_s)
    return ratio(points(times, columns["used"].tolist(), step_s), known)


def _unknown_use(job: JobRow) -> str:
    missing = job.held_gpu_s - job.known_gpu_s
    if job.held_gpu_s <= 0 or missing <= _NEGLIGIBLE * job.held_gpu_s:
        return ""
    if job.known_gpu_s <= 0:
        return "nothing is known of the use of its GPUs: no node has told of it"
    part = 100 * missing / job.held_gpu_s
    return f"of {part:.0f} % of the GPU hours held nothing is known of their use"


def _trimmed(job: JobRow, events: Sequence[JobEvent]) -> str:
    if events and events[0].at_s <= job.created_s + 1.0:
        return ""
    return "what happened first is no longer in the history, or was before it began"

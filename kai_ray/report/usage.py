"""Who had how many GPU hours, how well they were used, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_ray.history.reader import HistoryReader
from kai_ray.history.rows import SpentRow
from kai_ray.report.curves import Points, integral, points
from kai_ray.report.prices import Cost, Prices
from kai_ray.report.words import moment

#: By what usage can be told, and what the history calls it.
BY: Mapping[str, str] = {"queue": "queue", "user": "user", "kind": "kind", "node-pool": "pool"}
_HOUR_S = 3600.0
#: The use is known a sample late.
_NEGLIGIBLE = 0.05
#: Steps of the curves.
_POINTS = 240


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Hours are GPU hours, but `waited_hours`, which are hours of jobs.

    `asked_hours`: held, and wanted while waiting. `used_hours` is of `known_hours`, the part of
    those held of which the use is known; None: of none. `cost` None: none of it has a price.
    """

    name: str
    held_hours: float
    asked_hours: float
    used_hours: float | None
    known_hours: float
    waited_hours: float
    started: int
    ended: int
    failed: int
    evicted: int
    cost: float | None
    by_type: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def used_part(self) -> float | None:
        """0 to 1, of what is known."""
        if self.used_hours is None or self.known_hours <= 0:
            return None
        return self.used_hours / self.known_hours


@dataclass(frozen=True, slots=True)
class UsageReport:
    """`rows`: the largest first. `capacity`, `held`, `used`: GPUs of the whole cluster over time;
    `capacity_hours`: the sum of the first (None: not known)."""

    by: str
    since_s: float
    until_s: float
    rows: tuple[UsageRow, ...]
    total: UsageRow
    priced: bool
    currency: str
    capacity_hours: float | None
    capacity: Points
    held: Points
    used: Points
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Sum:
    """Of rows of the history, in seconds."""

    gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    known_gpu_s: float = 0.0
    waited_gpu_s: float = 0.0
    waited_s: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    failed: float = 0.0
    evicted: float = 0.0
    hours: dict[str, float] = field(default_factory=dict[str, float])  # held, by product

    def add(self, row: SpentRow, product: str) -> None:
        self.gpu_s += row.gpu_s
        self.used_gpu_s += row.used_gpu_s
        self.known_gpu_s += row.known_gpu_s
        self.waited_gpu_s += row.waited_gpu_s
        self.waited_s += row.waited_s
        self.started += row.started
        self.ended += row.ended
        self.failed += row.failed
        self.evicted += row.evicted
        if row.gpu_s > 0:
            self.hours[product] = self.hours.get(product, 0.0) + row.gpu_s / _HOUR_S

    def row(self, name: str, prices: Prices | None) -> UsageRow:
        return UsageRow(
            name=name,
            held_hours=self.gpu_s / _HOUR_S,
            asked_hours=(self.gpu_s + self.waited_gpu_s) / _HOUR_S,
            used_hours=self.used_gpu_s / _HOUR_S if self.known_gpu_s > 0 else None,
            known_hours=self.known_gpu_s / _HOUR_S,
            waited_hours=self.waited_s / _HOUR_S,
            started=round(self.started),
            ended=round(self.ended),
            failed=round(self.failed),
            evicted=round(self.evicted),
            cost=self.cost(prices).total,
            by_type=dict(sorted(self.hours.items())),
        )

    def cost(self, prices: Prices | None) -> Cost:
        cost = Cost(prices)
        for product, hours in self.hours.items():
            cost.add(product, hours)
        return cost


def usage_report(
    reader: HistoryReader,
    by: str,
    since_s: float,
    until_s: float,
    prices: Prices | None = None,
) -> UsageReport:
    """`by`: of `BY`. Raises HistoryError, KeyError for another `by`."""
    sums: dict[str, _Sum] = {}
    total = _Sum()
    for row in reader.spent(since_s, until_s, by=(BY[by], "product")):
        name, product = row.key
        for into in (sums.setdefault(name, _Sum()), total):
            into.add(row, product)
    rows = [found.row(name, prices) for name, found in sums.items()]
    rows = [r for r in rows if r.asked_hours or r.started or r.ended or r.evicted]
    if by == "node-pool":
        rows = _places_only(rows)
    rows.sort(key=lambda r: (-r.held_hours, -r.asked_hours, r.name))
    capacity, held, used = _curves(reader, since_s, until_s)
    capacity_s = integral(capacity, until_s)
    whole = total.row("total", prices)
    begins_s = reader.about().first_s
    notes = (total.cost(prices).gap(), _unknown(whole), _begins(begins_s, since_s))
    return UsageReport(
        by=by,
        since_s=since_s,
        until_s=until_s,
        rows=tuple(rows),
        total=whole,
        priced=prices is not None,
        currency=prices.currency if prices is not None else "",
        capacity_hours=None if capacity_s is None else capacity_s / _HOUR_S,
        capacity=capacity,
        held=held,
        used=used,
        notes=tuple(note for note in notes if note),
    )


def _places_only(rows: list[UsageRow]) -> list[UsageRow]:
    """What waits has no node pool yet: it is in the total only."""
    return [r for r in rows if r.name or r.held_hours]


def _curves(reader: HistoryReader, since_s: float, until_s: float) -> tuple[Points, Points, Points]:
    """GPUs that there were, that were held, that were in use: of the whole cluster."""
    series = reader.cluster(since_s, until_s, max(60.0, (until_s - since_s) / _POINTS))

    def whole(column: str) -> Points:
        sums = series.columns[column].sum(axis=1).tolist() if series.names else []
        return points(series.at_s.tolist(), sums, series.step_s) if sums else ()

    return whole("gpus"), whole("allocated"), whole("used")


def _unknown(total: UsageRow) -> str:
    missing = total.held_hours - total.known_hours
    if missing <= _NEGLIGIBLE * total.held_hours:
        return ""
    if total.known_hours <= 0:
        return "nothing is known of the use of GPUs: no node has told of it"
    part = 100 * missing / total.held_hours
    return f"of {part:.0f} % of the GPU hours held nothing is known of their use"


def _begins(first_s: float | None, since_s: float) -> str:
    if first_s is None:
        return "the history is empty"
    if first_s <= since_s + _HOUR_S:
        return ""
    return f"the history begins at {moment(first_s)} UTC: nothing is known of the time before"

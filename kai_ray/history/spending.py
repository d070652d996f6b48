"""What each hour cost whom: GPU seconds held, used and waited for, by queue, user, kind, pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

HOUR_S, DAY_S = 3600, 86_400


class Payer(NamedTuple):
    """`pool` and `product` are of the nodes and GPUs; both "" for what is spent on waiting."""

    queue: str
    user: str
    kind: str
    pool: str = ""
    product: str = ""


#: Amounts of a row, in the order of the table.
AMOUNTS = (
    "gpu_s",
    "used_gpu_s",
    "known_gpu_s",
    "waited_gpu_s",
    "waited_s",
    "started",
    "ended",
    "failed",
    "evicted",
)
_INDEX = {name: i for i, name in enumerate(AMOUNTS)}
_ADDED = ", ".join(f"{name} = {name} + excluded.{name}" for name in AMOUNTS)
_WHO = "queue, user, kind, pool, product"
_KEYS = f"begin_s, span_s, {_WHO}"
_COLUMNS = f"{_KEYS}, {', '.join(AMOUNTS)}"
_CONFLICT = f"ON CONFLICT ({_KEYS}) DO UPDATE SET {_ADDED}"
ADD = f"INSERT INTO spent ({_COLUMNS}) VALUES (?,{HOUR_S},?,?,?,?,?,?,?,?,?,?,?,?,?,?) {_CONFLICT}"
#: Makes one row of the hours of a day, for days before a time; then the hours go.
ROLL_UP = (
    f"INSERT INTO spent ({_COLUMNS}) SELECT begin_s / {DAY_S} * {DAY_S}, {DAY_S}, {_WHO}, "
    f"{', '.join(f'sum({name})' for name in AMOUNTS)} FROM spent "
    f"WHERE span_s = {HOUR_S} AND begin_s < ? GROUP BY 1, {_WHO} {_CONFLICT}"
)
ROLLED_UP = f"DELETE FROM spent WHERE span_s = {HOUR_S} AND begin_s < ?"
#: Hours are kept for so long, then days.
HOURS_KEPT_S = 8 * DAY_S


class Spending:
    """What has been spent and is not in the file yet."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, Payer], list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def over(self, payer: Payer, begin_s: float, end_s: float, **rates: float) -> None:
        """Adds what grows by `rates` each second, split at full hours."""
        while begin_s < end_s:
            hour = int(begin_s // HOUR_S) * HOUR_S
            until = min(end_s, hour + HOUR_S)
            row = self._row(hour, payer)
            for name, rate in rates.items():
                row[_INDEX[name]] += rate * (until - begin_s)
            begin_s = until

    def count(self, payer: Payer, at_s: float, name: str, amount: float = 1) -> None:
        self._row(int(at_s // HOUR_S) * HOUR_S, payer)[_INDEX[name]] += amount

    def rows(self) -> Iterator[tuple[object, ...]]:
        for (hour, payer), amounts in self._rows.items():
            yield (hour, *payer, *amounts)

    def clear(self) -> None:
        self._rows.clear()

    def _row(self, hour: int, payer: Payer) -> list[float]:
        return self._rows.setdefault((hour, payer), [0.0] * len(AMOUNTS))

"""Rows that live in slots of typed columns, and their canonical order by key."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key

K = TypeVar("K", bound=tuple[str, ...] | Key)

_DTYPES = {"i": np.int32, "q": np.int64, "d": np.float64, "b": np.int8}


class Table(Generic[K]):
    """Columns by name. A slot keeps its place while its row changes; order is by key."""

    def __init__(self, columns: Iterable[tuple[str, str]]) -> None:
        self._names: list[str] = []
        self._columns: list[array] = []
        self._codes: list[str] = []
        for name, code in columns:
            self._names.append(name)
            self._codes.append(code)
            self._columns.append(array(code))
        self.slot_of: dict[K, int] = {}
        self._free: list[int] = []
        self._size = 0
        self._order: list[K] = []
        self._added: list[K] = []
        self._removed = False
        self._permutation: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.slot_of)

    def put(self, key: K, row: tuple[float, ...]) -> tuple[float, ...] | None:
        """Stores a row; returns the one that was there before."""
        slot = self.slot_of.get(key)
        if slot is not None:
            old = tuple(column[slot] for column in self._columns)
            if old != row:
                for column, value in zip(self._columns, row, strict=True):
                    column[slot] = value  # type: ignore[assignment]
            return old
        if self._free:
            slot = self._free.pop()
            for column, value in zip(self._columns, row, strict=True):
                column[slot] = value  # type: ignore[assignment]
        else:
            slot = self._size
            self._size += 1
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)  # type: ignore[arg-type]
        self.slot_of[key] = slot
        self._added.append(key)
        return None

    def get(self, key: K) -> tuple[float, ...] | None:
        slot = self.slot_of.get(key)
        return None if slot is None else tuple(column[slot] for column in self._columns)

    def set(self, key: K, column: str, value: float) -> None:
        self._columns[self._names.index(column)][self.slot_of[key]] = value  # type: ignore[assignment]

    def remove(self, key: K) -> tuple[float, ...] | None:
        slot = self.slot_of.pop(key, None)
        if slot is None:
            return None
        self._free.append(slot)
        self._removed = True
        return tuple(column[slot] for column in self._columns)

    def order(self) -> list[K]:
        """Keys in ascending order. Sorting a nearly sorted list costs a pass, not a sort."""
        if self._removed:
            known = set(self._added)
            self._order = [k for k in self._order if k in self.slot_of and k not in known]
        if self._added or self._removed:
            self._order += dict.fromkeys(k for k in self._added if k in self.slot_of)
            self._order.sort()
            slots = self.slot_of
            self._permutation = np.fromiter(
                (slots[k] for k in self._order), dtype=np.int64, count=len(self._order)
            )
            self._added.clear()
            self._removed = False
        return self._order

    def column(self, name: str) -> NDArray[Any]:
        """One column in canonical order (a copy)."""
        self.order()
        index = self._names.index(name)
        dtype = _DTYPES[self._codes[index]]
        if not self._order:
            return np.empty(0, dtype=dtype)
        return np.frombuffer(self._columns[index], dtype=dtype)[self._permutation]

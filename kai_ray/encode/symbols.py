"""Integers for names: counted, so that what nobody mentions any more is forgotten.

Rows of the snapshot refer to each other by symbol while objects come and go in any order; a symbol
is translated to the row of the day by one vector look-up when the snapshot is taken.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)


class Symbols(Generic[K]):
    """Counted two-way table between keys and small integers. `changes` moves when the set does."""

    def __init__(self) -> None:
        self.ids: dict[K, int] = {}
        self._keys: list[K | None] = []
        self._counts = array("q")
        self._free: list[int] = []
        self.changes = 0

    def acquire(self, key: K) -> int:
        found = self.ids.get(key)
        if found is None:
            self.changes += 1
            if self._free:
                found = self._free.pop()
                self._keys[found] = key
            else:
                found = len(self._keys)
                self._keys.append(key)
                self._counts.append(0)
            self.ids[key] = found
        self._counts[found] += 1
        return found

    def release(self, symbol: int) -> bool:
        """True if that was the last mention."""
        if symbol < 0:
            return False
        self._counts[symbol] -= 1
        if self._counts[symbol]:
            return False
        key = self._keys[symbol]
        assert key is not None
        del self.ids[key]
        self._keys[symbol] = None
        self._free.append(symbol)
        self.changes += 1
        return True

    def key(self, symbol: int) -> K:
        found = self._keys[symbol]
        assert found is not None
        return found

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[K]:
        return iter(self.ids)

    def rows(self, row_of: dict[K, int]) -> NDArray[np.int32]:
        """[len + 1] row per symbol, -1 where `row_of` has none; the last entry serves symbol -1."""
        table = np.full(len(self._keys) + 1, -1, dtype=np.int32)
        for key, symbol in self.ids.items():
            row = row_of.get(key)
            if row is not None:
                table[symbol] = row
        return table

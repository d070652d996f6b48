"""Which device for which want: depth first, with going back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kai_ray.cluster.port import Key

from . import cells
from .asks import Option
from .attributes import Name
from .rows import Devices

#: Steps of the search on one node, for all its pods together and then for each of them.
MOST_STEPS = 20_000


@dataclass(slots=True)
class Want:
    """One device to be found."""

    claim: Key
    request: str
    option: Option
    choices: list[int]
    bound: list[tuple[Any, Name]]  # constraints: (group, attribute)
    liked: list[tuple[Any, Name]]  # the same, as far as it can be had


class Search:
    """Depth first, the want with the fewest choices first; alike devices are tried once."""

    def __init__(self, wants: Sequence[Want], gone: set[int], devices: Devices, near: bool) -> None:
        """`near`: what is liked holds too."""
        self._wants, self._gone, self._devices = wants, gone, devices
        self._bound = {id(w): [*w.bound, *(w.liked if near else ())] for w in wants}
        self._names = sorted({name for bound in self._bound.values() for _, name in bound})
        self._found: dict[int, int] = {}
        self._same: dict[tuple[Any, Name], list[Any]] = {}
        self._steps = 0

    def run(self) -> dict[int, int] | None:
        return dict(self._found) if self._place(0) else None

    def _place(self, i: int) -> bool:
        if i == len(self._wants):
            return True
        want = self._wants[i]
        tried: set[Any] = set()
        for d in want.choices:
            if d in self._gone:
                continue
            self._steps += 1
            if self._steps > MOST_STEPS:
                return False
            alike = self._alike(d)
            if alike in tried or not self._holds(want, d):
                continue
            tried.add(alike)
            self._take(want, d)
            if self._place(i + 1):
                return True
            self._leave(want, d)
        return False

    def _alike(self, device: int) -> Any:
        """What tells a device apart for this search."""
        found = self._devices.supply.devices[device]
        seen = self._devices.offer.kind(device)
        return seen, tuple(repr(cells.value(found, name)) for name in self._names)

    def _holds(self, want: Want, device: int) -> bool:
        found = self._devices.supply.devices[device]
        for slot in self._bound[id(want)]:
            value = cells.value(found, slot[1])
            if value is None:
                return False
            held = self._same.get(slot)
            if held and held[0] != value:
                return False
        return True

    def _take(self, want: Want, device: int) -> None:
        self._gone.add(device)
        self._found[id(want)] = device
        for slot in self._bound[id(want)]:
            value = cells.value(self._devices.supply.devices[device], slot[1])
            self._same.setdefault(slot, []).append(value)

    def _leave(self, want: Want, device: int) -> None:
        self._gone.discard(device)
        del self._found[id(want)]
        for slot in self._bound[id(want)]:
            self._same[slot].pop()

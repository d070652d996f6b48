"""Reservation pods: a whole card that is kept for those who share it (KAI 0.17).

While somebody shares the card, it stands in the books through them, and the pod itself holds none.
One that nobody shares (not yet, or no more) holds its card like any pod, and is about to leave: so
no whole-GPU pod lands on a card that the node's device plugin has not got back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster.port import Key

from . import gpu_asks
from .shape import Shape

_Card = tuple[str, str]  # node, group


def without_gpus(shape: Shape) -> Shape:
    request = tuple((name, n) for name, n in shape.request if name not in GPU_RESOURCES)
    return shape._replace(request=request, gpu=gpu_asks.NO_SHARE, devices=())


class Reservations:
    """Which cards somebody shares, and which pod keeps them."""

    def __init__(self) -> None:
        self._sharers: dict[_Card, set[Key]] = {}
        self._cards: dict[Key, tuple[_Card, ...]] = {}
        self._keepers: dict[_Card, dict[Key, None]] = {}
        self._kept: dict[Key, tuple[_Card, ...]] = {}

    def shared(self, cards: Iterable[_Card]) -> bool:
        return any(card in self._sharers for card in cards)

    def keep(self, key: Key, cards: tuple[_Card, ...]) -> None:
        """Notes the cards of a reservation pod; none once it is gone."""
        for card in self._kept.pop(key, ()):
            self._keepers[card].pop(key, None)
            if not self._keepers[card]:
                del self._keepers[card]
        if cards:
            self._kept[key] = cards
            for card in cards:
                self._keepers.setdefault(card, {})[key] = None

    def share(self, key: Key, cards: tuple[_Card, ...]) -> list[Key]:
        """Notes the cards of a pod that shares; answers reservation pods that are affected."""
        before = self._cards.get(key, ())
        if before == cards:
            return []
        moved: list[_Card] = []
        for card in before:
            mates = self._sharers[card]
            mates.discard(key)
            if not mates:
                del self._sharers[card]
                moved.append(card)
        for card in cards:
            if card not in self._sharers:
                moved.append(card)
            self._sharers.setdefault(card, set()).add(key)
        if cards:
            self._cards[key] = cards
        else:
            self._cards.pop(key, None)
        return [keeper for card in dict.fromkeys(moved) for keeper in self._keepers.get(card, ())]


def cards_of(node: str, groups: Iterable[str]) -> tuple[_Card, ...]:
    return tuple((node, group) for group in groups)


def groups_of_labels(labels: Mapping[str, Any]) -> tuple[str, ...]:
    """The devices that labels name, sorted."""
    prefix = names.GPU_GROUP + "/"
    found = {str(value) for key, value in labels.items() if key.startswith(prefix)}
    if names.GPU_GROUP in labels:
        found.add(str(labels[names.GPU_GROUP]))
    return tuple(sorted(found))

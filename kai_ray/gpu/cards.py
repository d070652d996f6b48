"""A card that pods share, as objects tell it: which, how large, and what a pod takes of it.

A *group* is KAI's name for a device that pods of one node share; a card is a group on its node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object
from kai_ray.encode import gpu_asks, requests
from kai_ray.encode.dra.cards import NodeCards
from kai_ray.encode.gpu_table import card_mib, groups_of, told_devices
from kai_ray.encode.problems import MISREAD
from kai_ray.scheduler.gpu.facts import UNKNOWN_CARD, GpuKind

_ROUNDING = 1e-6  # a part that is whole MiB but for rounding stays whole
_ENDED = ("Succeeded", "Failed")


class Card(NamedTuple):
    node: str
    group: str

    @property
    def key(self) -> str:
        """As one text; neither part holds a slash."""
        return f"{self.node}/{self.group}"

    @classmethod
    def of_key(cls, key: str) -> Card:
        node, _, group = key.partition("/")
        return cls(node, group)


class Part(NamedTuple):
    """What a pod asks of each of its cards."""

    mib: int  # where the node says how much its cards have, else percent
    portion: float  # of the card, in whole percent and not less than asked
    devices: int


def size(node: Object, offered: NodeCards | None = None) -> int:
    """MiB of each card of a node, 100 (so that parts are percent) where nobody says.

    `offered` are the node's cards where resource slices offer them.
    """
    return stated_size(node, offered) or UNKNOWN_CARD


def stated_size(node: Object, offered: NodeCards | None = None) -> int:
    """The same, 0 where neither the node nor its slices say."""
    return _stated(node) or (offered.mib if offered is not None else 0)


def _stated(node: Object) -> int:
    labels: dict[str, Any] = node["metadata"].get("labels") or {}
    return card_mib({k: str(v) for k, v in labels.items()})


def part_of(pod: Object, card: int) -> Part | None:
    """What a pod takes of each card of so many MiB; None if it shares nothing (or nobody knows)."""
    try:
        ask = gpu_asks.read(
            pod["metadata"].get("annotations") or {}, requests.effective(pod["spec"])
        )
    except MISREAD:
        return None
    if ask.kind == GpuKind.MEMORY:
        return Part(ask.mib, -(-100 * ask.mib // card) / 100, ask.devices)
    if ask.kind == GpuKind.FRACTION:
        return Part(max(int(ask.portion * card + _ROUNDING), 1), ask.portion, ask.devices)
    return None


def cards_of(pod: Object) -> list[Card]:
    """The cards that a pod on a node says it shares (a reservation pod: the one it keeps)."""
    node = pod["spec"].get("nodeName")
    return [Card(node, group) for group in groups_of(pod)] if node else []


def told_device(pod: Object, card: Card) -> str:
    """The UUID by which a pod knows one of its cards; "" if it was told none."""
    return told_devices(pod).get(card.group, "")


def ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def by_claim(node: Object, offered: NodeCards | None) -> bool:
    """Whether a card of the node is had by a resource claim: no device plugin offers any there."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return offered is not None or not any(name in allocatable for name in names.GPU_RESOURCES)


def gpu_resource(node: Object) -> str:
    """The name by which the node's device plugin offers whole cards."""
    offered = (node.get("status") or {}).get("allocatable") or {}
    return next((name for name in names.GPU_RESOURCES if name in offered), names.NVIDIA_GPU)

"""The GPUs of one simulated node that several pods share: who keeps each, and who uses it."""

from __future__ import annotations


class SharedGpus:
    """A judge of its own: it counts what pods were promised, and knows no scheduler's books.

    The device of a group is the one that its reservation pod was given.
    """

    def __init__(self, card: int) -> None:
        self.card = card  # MiB of each device
        self._kept: dict[str, int] = {}  # group -> index of the device
        self._keepers: dict[str, str] = {}  # uid of a reservation pod -> group
        self._users: dict[int, dict[str, int]] = {}  # index -> uid -> MiB

    def keep(self, uid: str, group: str, index: int) -> None:
        """A reservation pod was given a device."""
        self._kept[group] = index
        self._keepers[uid] = group

    def overfull(self, shares: dict[str, int]) -> str:
        """What is wrong with giving a pod these parts, MiB by group, or ""."""
        for group, amount in shares.items():
            if group not in self._kept:
                return f"nobody keeps a GPU for group {group}"
            used = sum(self._users.get(self._kept[group], {}).values())
            if used + amount > self.card:
                return f"GPU of group {group} has {self.card - used} MiB left, requested: {amount}"
        return ""

    def join(self, uid: str, shares: dict[str, int], known: list[int]) -> list[int]:
        """Gives a pod its parts; `known` are the devices that it held before a restart, if any."""
        indices = known or [self._kept[group] for group in shares if group in self._kept]
        for index, amount in zip(indices, shares.values(), strict=False):
            self._users.setdefault(index, {})[uid] = amount
        return indices

    def leave(self, uid: str) -> None:
        """A pod has ended, be it one that keeps a device or one that uses some."""
        group = self._keepers.pop(uid, None)
        if group is not None and group not in self._keepers.values():
            self._kept.pop(group, None)
        for index in [i for i, users in self._users.items() if uid in users]:
            del self._users[index][uid]
            if not self._users[index]:
                del self._users[index]

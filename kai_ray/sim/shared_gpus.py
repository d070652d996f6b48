"""The GPUs of one simulated node that several pods share, as its device plugin keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class SharedGpu:
    """One device and what each pod holds of its memory, MiB."""

    index: int
    users: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def used(self) -> int:
        return sum(self.users.values())


class SharedGpus:
    """Devices by the name of the group that shares them."""

    def __init__(self, card: int) -> None:
        self.card = card  # MiB of each device
        self._devices: dict[str, SharedGpu] = {}

    def new(self, shares: dict[str, int]) -> int:
        """How many devices have to be opened for a pod."""
        return sum(group not in self._devices for group in shares)

    def overfull(self, shares: dict[str, int]) -> str:
        """What is wrong with giving a pod these parts, or ""."""
        for group, amount in shares.items():
            device = self._devices.get(group)
            used = device.used if device else 0
            if used + amount > self.card:
                return f"GPU of group {group} has {self.card - used} MiB left, requested: {amount}"
        return ""

    def join(self, uid: str, shares: dict[str, int], indices: dict[str, int]) -> list[int]:
        """Gives a pod its parts; `indices` name the devices of groups that are new."""
        for group, amount in shares.items():
            device = self._devices.get(group)
            if device is None:
                if group not in indices:
                    continue
                device = self._devices[group] = SharedGpu(indices[group])
            device.users[uid] = amount
        return [self._devices[group].index for group in shares if group in self._devices]

    def leave(self, uid: str) -> list[int]:
        """Takes a pod off its devices; answers those that nobody shares any more."""
        left: list[int] = []
        for group, device in list(self._devices.items()):
            if device.users.pop(uid, None) is not None and not device.users:
                del self._devices[group]
                left.append(device.index)
        return left

    def indices(self) -> set[int]:
        """Devices that are shared now."""
        return {device.index for device in self._devices.values()}

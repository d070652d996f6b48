"""How a pod asks for parts of GPUs: fraction, memory and number of devices, MIG profiles.

Sources: KAI 0.17, annotations gpu-fraction, gpu-memory, gpu-fraction-num-devices; NVIDIA device
plugin, resources nvidia.com/mig-<slices>g.<memory>gb with attributes (+me as ".me"). The same
reading refuses bad values at admission and keeps the pods inert that slip by.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.scheduler.gpu.facts import GpuKind

from .problems import Malformed
from .requests import Amounts

#: "1g.10gb", with attributes behind: "1g.10gb.me", "1g.10gb+me", "1g.10gb-me"; a compute instance
#: in front ("1c.3g.40gb") is a part of the profile.
_PROFILE = re.compile(r"nvidia\.com/mig-(?:\d+c\.)?(\d+)g\.(\d+)gb(?:[.+-][a-z0-9.+-]+)?")
#: Cards that are cut into four slices, by memory per slice (GB) of their profiles.
_QUARTERS = {(1, 6), (2, 12), (4, 24)}
_MOST_DEVICES = 1024
_DIGITS = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,3})?")


class GpuAsk(NamedTuple):
    """Fields as in the core's table of GPUs, for one pod."""

    kind: int = GpuKind.NONE
    devices: int = 1
    portion: float = 0.0  # of each device
    mib: int = 0  # of each device


NO_SHARE = GpuAsk()


def read(annotations: Mapping[str, Any], request: Amounts) -> GpuAsk:
    """Raises Malformed."""
    fraction, memory = annotations.get(names.GPU_FRACTION), annotations.get(names.GPU_MEMORY)
    count = annotations.get(names.GPU_FRACTION_DEVICES)
    if any(str(key).startswith(names.MIG_PREFIX) for key in annotations):
        return GpuAsk(GpuKind.LEGACY_MIG)
    if fraction is None and memory is None:
        _needs_share(names.GPU_FRACTION_DEVICES, count)
        if str(annotations.get(names.MPS, "")).lower() == "true":
            _needs_share(names.MPS, "true")
        return _plain(request)
    _alone(fraction, memory, request)
    devices = _devices(count)
    if memory is not None:
        return GpuAsk(GpuKind.MEMORY, devices, 0.0, _mib(memory))
    return GpuAsk(GpuKind.FRACTION, devices, _portion(fraction), 0)


def _plain(request: Amounts) -> GpuAsk:
    held = {name for name, _ in request}
    if any(name.startswith(names.MIG_PREFIX) for name in held):
        return GpuAsk(GpuKind.MIG)
    return GpuAsk(GpuKind.WHOLE) if held & set(GPU_RESOURCES) else NO_SHARE


def _alone(fraction: Any, memory: Any, request: Amounts) -> None:
    """A share does not go together with whole GPUs, profiles, or the other kind of share."""
    if fraction is not None and memory is not None:
        mend = f"cannot stand beside {names.GPU_FRACTION}: ask for a part or for memory, not both"
        raise Malformed(_field(names.GPU_MEMORY), mend)
    key = names.GPU_FRACTION if fraction is not None else names.GPU_MEMORY
    for name, _ in request:
        if name in GPU_RESOURCES or name.startswith(names.MIG_PREFIX):
            mend = f"cannot stand beside a request of {name}: ask for a share or for whole devices"
            raise Malformed(_field(key), mend)


def _needs_share(key: str, value: Any) -> None:
    if value is not None:
        mend = f"needs {names.GPU_FRACTION} or {names.GPU_MEMORY} beside it"
        raise Malformed(_field(key), mend)


def _portion(value: Any) -> float:
    written = isinstance(value, str) and _DECIMAL.fullmatch(value)
    found = float(value) if written else math.nan
    if not 0 < found < 1:  # NaN is not
        mend = f"{_shown(value)} is no part of a GPU: write a decimal between 0 and 1, such as 0.5"
        raise Malformed(_field(names.GPU_FRACTION), mend)
    return found


def _mib(value: Any) -> int:
    if not isinstance(value, str) or not _DIGITS.fullmatch(value) or int(value) == 0:
        mend = f"{_shown(value)} is no amount of GPU memory: write whole MiB, such as 8000"
        raise Malformed(_field(names.GPU_MEMORY), mend)
    return int(value)


def _devices(value: Any) -> int:
    if value is None:
        return 1
    good = isinstance(value, str) and _DIGITS.fullmatch(value)
    if not good or not 1 <= int(value) <= _MOST_DEVICES:
        mend = f"{_shown(value)} is no number of devices: write 1 to {_MOST_DEVICES}"
        raise Malformed(_field(names.GPU_FRACTION_DEVICES), mend)
    return int(value)


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _shown(value: Any) -> str:
    return repr(value)[:40]


def slices(amounts: Mapping[str, int] | Amounts) -> int:
    """GPUs that profiles count as in quotas: one per slice, as KAI counts them by default."""
    return sum(size * count for size, _, count in _profiles(amounts))


def cards(amounts: Mapping[str, int] | Amounts) -> float:
    """The part of cards that profiles are: slices of seven, on small cards of four."""
    return sum(
        size * count / (4 if (size, memory) in _QUARTERS else 7)
        for size, memory, count in _profiles(amounts)
    )


def _profiles(amounts: Mapping[str, int] | Amounts) -> Iterator[tuple[int, int, int]]:
    """(slices, GB, how many) of each profile; other resources are left out."""
    for name, count in amounts.items() if isinstance(amounts, Mapping) else amounts:
        if name.startswith(names.MIG_PREFIX):
            found = _PROFILE.fullmatch(name)
            if found:
                yield int(found[1]), int(found[2]), count

"""Kubernetes quantities as exact integers."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from functools import lru_cache

_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
#: Quantities beyond this are refused (128 TiB in bytes: more than any node has of anything), so
#: that sums over 65,000 nodes or pods still fit an int64.
LARGEST = 2**47


@lru_cache(maxsize=8192)
def parse(text: str | int | float) -> Decimal:
    """The value of a quantity such as "500m", "2Gi", "1e3" or 0.5. Raises ValueError."""
    raw = str(text).strip()
    number = raw.rstrip("KMGTPEikmnu")
    suffix = raw[len(number) :]
    if suffix == "E" and not number:
        raise ValueError(f"{text!r} is not a quantity: write a number such as 2, 500m or 4Gi")
    try:
        value = Decimal(number)
        scale = _SUFFIX[suffix]
    except (InvalidOperation, KeyError):
        raise ValueError(
            f"{text!r} is not a quantity: write a number such as 2, 500m or 4Gi"
        ) from None
    if not value.is_finite():
        raise ValueError(f"{text!r} is not finite: write a number such as 2, 500m or 4Gi")
    return value * scale


@lru_cache(maxsize=8192)
def milli(text: str | int | float) -> int:
    """In thousandths, rounded up: CPU as millicores."""
    return _bounded(parse(text) * 1000, text)


@lru_cache(maxsize=8192)
def whole(text: str | int | float) -> int:
    """In whole units, rounded up: bytes, devices."""
    return _bounded(parse(text), text)


def _bounded(value: Decimal, text: str | int | float) -> int:
    if abs(value) > LARGEST:
        raise ValueError(f"{text!r} is too large: the largest quantity is {LARGEST}")
    return int(value.to_integral_value(rounding="ROUND_CEILING"))

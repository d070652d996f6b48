"""Prices of a GPU hour by the GPU's type, from a file or as one number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_LARGEST = 1 << 20
_MOST = 1000
_LONGEST = 32


class PriceError(ValueError):
    """Prices that cannot be used; the text names the field and the mend."""


@dataclass(frozen=True, slots=True)
class Prices:
    """`by_type`: the whole product name or one word of it ("H100"), as queues name GPU types."""

    by_type: Mapping[str, float] = field(default_factory=dict[str, float])
    default: float | None = None
    currency: str = ""

    def of(self, product: str) -> float | None:
        """A GPU hour of that product; None where the prices do not say.

        The whole name goes before a word of it, more words before fewer.
        """
        low = product.lower()
        words = set(re.split(r"[-_ .]+", low))
        best: tuple[int, float] | None = None
        for name, price in self.by_type.items():
            wanted = name.lower()
            parts = re.split(r"[-_ .]+", wanted)
            size = 1000 if wanted == low else len(parts) if set(parts) <= words else 0
            if size and (best is None or size > best[0]):
                best = (size, price)
        return best[1] if best is not None else self.default


@dataclass(slots=True)
class Cost:
    """A sum in the making. `unpriced`: GPU hours by type that have no price."""

    prices: Prices | None
    amount: float = 0.0
    unpriced: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, product: str, gpu_hours: float) -> None:
        if self.prices is None or gpu_hours <= 0:
            return
        price = self.prices.of(product)
        if price is None:
            self.unpriced[product] = self.unpriced.get(product, 0.0) + gpu_hours
        else:
            self.amount += price * gpu_hours

    @property
    def total(self) -> float | None:
        """None where nothing of it has a price."""
        if self.prices is None or (self.unpriced and not self.amount):
            return None
        return self.amount

    def gap(self) -> str:
        """What the sum leaves out, and the mend; "" if nothing."""
        if not self.unpriced:
            return ""
        parts = [
            f"{hours:.4g} GPU hours on {product or 'GPUs of unknown type'}"
            for product, hours in sorted(self.unpriced.items())
        ]
        named = [f"gpuHour.{product}" for product in sorted(self.unpriced) if product]
        mend = " or ".join([*named[:3], "default"])
        return f"without a price, and not in the cost: {', '.join(parts)}; add {mend} to the prices"


def load(text: str) -> Prices:
    """A number ("2.5": every GPU hour costs that) or the path of a YAML or JSON file.

    Raises PriceError.
    """
    try:
        return Prices(default=_price(float(text), "the price"))
    except ValueError as error:
        if isinstance(error, PriceError):
            raise
    try:
        with Path(text).open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        mend = "give a number or a file that can be read"
        raise PriceError(f"{text}: {error.strerror}: {mend}") from error
    if len(content) > _LARGEST:
        raise PriceError(f"{text}: is larger than {_LARGEST} bytes")
    try:
        return parse(yaml.safe_load(content))
    except PriceError as error:
        raise PriceError(f"{text}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:300]
        raise PriceError(f"{text}: is no YAML: {words}") from error


def parse(raw: Any) -> Prices:
    """`{currency: EUR, default: 2, gpuHour: {H100: 4.5}}`. Raises PriceError."""
    if not isinstance(raw, dict):
        raise PriceError("is not a map of fields: write gpuHour: {H100: 4.5}")
    known = ("currency", "default", "gpuHour")
    strange = [str(key) for key in raw if key not in known]
    if strange:
        raise PriceError(f"unknown field {strange[0]!r}: write one of {', '.join(known)}")
    table = raw.get("gpuHour") or {}
    if not isinstance(table, dict) or len(table) > _MOST:
        raise PriceError("gpuHour: is not a map of GPU types to prices: write {H100: 4.5}")
    prices: dict[str, float] = {}
    for name, value in table.items():
        if not isinstance(name, str) or not name.strip():
            raise PriceError(f"gpuHour: {name!r} is not a GPU type: write it in quotes")
        prices[name.strip()] = _price(value, f"gpuHour.{name}")
    default = raw.get("default")
    currency = raw.get("currency") or ""
    if not isinstance(currency, str) or len(currency) > _LONGEST:
        raise PriceError(f"currency: {currency!r} is not a short text, such as EUR")
    if not prices and default is None:
        raise PriceError("names no price: write gpuHour: {H100: 4.5} or default: 2")
    return Prices(prices, None if default is None else _price(default, "default"), currency)


def _price(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PriceError(f"{at}: {value!r} is not a number")
    if not math.isfinite(value) or value < 0:
        raise PriceError(f"{at}: {value:g} is not a price: write 0 or more")
    return float(value)

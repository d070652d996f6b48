"""Figures of many things at one time as a few bytes: ids, then a column of float32 each.

Neighbouring values are alike in their high bytes, so bytes are put together by position before they
are compressed. Sixteen bits of each value are kept: whole numbers up to 65,536 are exact, others to
one part in 65,536, which is enough for figures that are drawn and summed up.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_HALF, _KEPT = np.uint32(0x80), np.uint32(0xFFFFFF00)
_HEAD = struct.Struct("<HI")
Ids = NDArray[np.int32]
Values = NDArray[np.float32]


def pack(ids: Ids, values: NDArray[np.floating]) -> bytes:
    """`values` [columns, n] of the things with these `ids` [n]."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4").ravel()
    words = np.concatenate([ids.astype("<i4").view("<u4"), (bits + _HALF) & _KEPT])
    columns = values.shape[0]
    table = words.view(np.uint8).reshape(columns + 1, ids.size, 4) if ids.size else _NOTHING
    planes = np.ascontiguousarray(np.moveaxis(table, 2, 1))
    return _HEAD.pack(columns, ids.size) + zlib.compress(planes.tobytes(), 1)


def unpack(data: bytes) -> tuple[Ids, Values]:
    """Raises ValueError where the bytes are not what `pack` makes."""
    try:
        columns, count = _HEAD.unpack_from(data)
        raw = np.frombuffer(zlib.decompress(data[_HEAD.size :]), dtype=np.uint8)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"figures cannot be read: {error}") from error
    if raw.size != (columns + 1) * count * 4:
        raise ValueError("figures cannot be read: they are cut short")
    planes = raw.reshape(columns + 1, 4, count)
    words = np.ascontiguousarray(np.moveaxis(planes, 1, 2)).view("<u4").reshape(columns + 1, count)
    return words[0].view("<i4"), words[1:].view("<f4")


_NOTHING = np.zeros((1, 0, 4), dtype=np.uint8)

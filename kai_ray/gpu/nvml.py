"""The NVIDIA devices that this process sees, by the driver's own library; nothing to install."""

from __future__ import annotations

import ctypes
import os

_LIBRARY = "libnvidia-ml.so.1"
_LONGEST_UUID = 96
_NAMED = "GPU-"


class NoDriver(Exception):
    """The driver's library is not there, or does not answer."""


def uuids() -> list[str]:
    """UUIDs of all visible devices. Raises NoDriver."""
    try:
        library = ctypes.CDLL(os.environ.get("KAI_NVML_LIBRARY") or _LIBRARY)
    except OSError as error:
        message = f"{_LIBRARY} cannot be loaded ({error}): is this a container with a GPU?"
        raise NoDriver(message) from None
    _ask(library.nvmlInit_v2)
    try:
        count = ctypes.c_uint()
        _ask(library.nvmlDeviceGetCount_v2, ctypes.byref(count))
        return [_uuid(library, index) for index in range(count.value)]
    finally:
        library.nvmlShutdown()


def _uuid(library: ctypes.CDLL, index: int) -> str:
    device = ctypes.c_void_p()
    _ask(library.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(device))
    text = ctypes.create_string_buffer(_LONGEST_UUID)
    _ask(library.nvmlDeviceGetUUID, device, text, _LONGEST_UUID)
    return text.value.decode()


def _ask(function: object, *args: object) -> None:
    code = function(*args)  # type: ignore[operator]
    if code:
        raise NoDriver(f"the NVIDIA driver answered {code} to {getattr(function, '__name__', '')}")


def named_by_environment() -> list[str]:
    """UUIDs that the device plugin wrote into the environment, where it did."""
    text = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return [part for part in text.split(",") if part.startswith(_NAMED)]

"""NVML by way of `nvidia-ml-py`, with its many ways to fail brought down to three.

What a device or driver does not offer is None. A device that has gone is `Lost`, a driver that does
not work any more is `NoDriver`; anything else is `Odd`, and concerns one call only.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

#: Another library in the place of the driver's own.
LIBRARY = "KAI_NVML_LIBRARY"


class NoDriver(Exception):
    """There is no driver, or it has stopped to work: a sentence that says so."""


class Lost(Exception):
    """The device is not there any more."""


class Odd(Exception):
    """One call failed, in the driver's words."""


class Library:
    """The module `pynvml`, loaded and initialised. `nvml` gives its names."""

    def __init__(self) -> None:
        """Raises NoDriver."""
        try:
            import pynvml
        except ImportError:
            message = "nvidia-ml-py is not installed: pip install 'kai-ray[agent]'"
            raise NoDriver(message) from None
        self.nvml = pynvml
        path = os.environ.get(LIBRARY)
        if path:
            try:
                # Found again by its name (SONAME) when pynvml asks for the driver's.
                self._loaded = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                raise NoDriver(f"{path} cannot be loaded: {error}") from None
        self._absent = _codes(
            pynvml,
            "NOT_SUPPORTED",
            "NOT_FOUND",
            "NO_PERMISSION",
            "FUNCTION_NOT_FOUND",
            "ARGUMENT_VERSION_MISMATCH",
            "DEPRECATED",
        )
        self._lost = _codes(pynvml, "GPU_IS_LOST", "GPU_NOT_FOUND", "RESET_REQUIRED")
        self._dead = _codes(
            pynvml,
            "UNINITIALIZED",
            "LIBRARY_NOT_FOUND",
            "DRIVER_NOT_LOADED",
            "LIB_RM_VERSION_MISMATCH",
        )
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NoDriver(self._words(error)) from None

    def ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """The answer, None where there is none to be had. Raises NoDriver, Lost, Odd."""
        try:
            return call(*args)
        except self.nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code in self._absent:
                return None
            if code in self._lost:
                raise Lost(self._words(error)) from None
            if code in self._dead:
                raise NoDriver(self._words(error)) from None
            raise Odd(f"{call.__name__}: {self._words(error)}") from None

    def try_(self, call: Callable[..., Any], *args: Any) -> Any:
        """The same for figures that are not worth a word. Raises NoDriver, Lost."""
        try:
            return self.ask(call, *args)
        except Odd:
            return None

    def maybe(self, call: Callable[..., Any], *args: Any) -> Any:
        """The same where a device that has gone is found out elsewhere. Raises NoDriver."""
        try:
            return self.ask(call, *args)
        except (Lost, Odd):
            return None

    def close(self) -> None:
        try:
            self.nvml.nvmlShutdown()
        except self.nvml.NVMLError:
            return

    def _words(self, error: Any) -> str:
        code = getattr(error, "value", None)
        if code in _codes(self.nvml, "LIBRARY_NOT_FOUND"):
            return "no NVIDIA driver is visible here (libnvidia-ml.so.1 is not found)"
        if code in _codes(self.nvml, "DRIVER_NOT_LOADED"):
            return "the NVIDIA driver is not loaded"
        return f"the NVIDIA driver says: {error}"


def _codes(nvml: Any, *names: str) -> frozenset[int]:
    """Of those that this version of the module knows."""
    found = (getattr(nvml, f"NVML_ERROR_{name}", None) for name in names)
    return frozenset(code for code in found if code is not None)

"""Whether a device can be used: what it reported by XID, its memory, whether it answers at all.

An XID is the driver's report of an error. Some are the program's fault, some are noted and dealt
with by the device; any other leaves a device that is not to be trusted before it is reset, and a
reset needs this agent to be restarted: what it remembers holds until then.
"""

from __future__ import annotations

from typing import Any

from kai_ray.agent.library import Library, Lost, Odd

#: Errors of programs (NVIDIA, "XID Errors"; its device plugin passes over the same).
PROGRAM_XIDS = frozenset({8, 13, 31, 32, 43, 45, 66, 68, 69, 109, 126, 127, 128})
#: Errors of memory that the device has put right, or kept to the program that met them.
CONTAINED_XIDS = frozenset({63, 92, 94})
_WORDS = {
    48: "a double bit error of its memory",
    61: "its microcontroller stopped",
    62: "its microcontroller stopped",
    64: "it could not replace broken memory",
    74: "NVLink failed",
    79: "it has fallen off the bus",
    95: "an error of its memory that could not be contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "an error of its memory that could not be put right",
}
_MOST_AT_ONCE = 64


class Xids:
    """Reports of the driver, as they come in. By index of the device."""

    def __init__(self, library: Library, handles: dict[int, Any]) -> None:
        self.bad: dict[int, int] = {}  # index -> the XID that it is out for
        self._library = library
        self._index = {_address(handle): index for index, handle in handles.items()}
        nvml = library.nvml
        self._set = library.maybe(nvml.nvmlEventSetCreate)
        kinds = nvml.nvmlEventTypeXidCriticalError
        for handle in handles.values() if self._set is not None else ():
            library.maybe(nvml.nvmlDeviceRegisterEvents, handle, kinds, self._set)

    def take(self) -> None:
        """Takes in what has been reported since; does not wait."""
        if self._set is None:
            return
        nvml = self._library.nvml
        for _ in range(_MOST_AT_ONCE):
            try:
                found = self._library.ask(nvml.nvmlEventSetWait_v2, self._set, 0)
            except (Lost, Odd):
                return  # most often a time-out: there is nothing more
            if found is None or found.eventType != nvml.nvmlEventTypeXidCriticalError:
                return
            self.note(_address(found.device), int(found.eventData))

    def note(self, address: int | None, xid: int) -> None:
        if xid in PROGRAM_XIDS or xid in CONTAINED_XIDS:
            return
        # One that names no device that we know may be any of them.
        known = self._index.get(address or 0)
        for index in self._index.values() if known is None else (known,):
            self.bad[index] = xid

    def close(self) -> None:
        if self._set is not None:
            self._library.maybe(self._library.nvml.nvmlEventSetFree, self._set)


def said(xid: int) -> str:
    return f"XID {xid}: {_WORDS.get(xid, 'the driver reported an error of the device')}"


def memory_problem(library: Library, handle: Any) -> tuple[bool, str]:
    """(whether the device can be used as far as its memory goes, what is to be said of it)."""
    nvml = library.nvml
    rows = library.try_(nvml.nvmlDeviceGetRemappedRows, handle)
    if rows is not None:
        _, _, pending, failed = rows
        if failed:
            return False, "broken rows of its memory could not be replaced: it has to be exchanged"
        if pending:
            return True, "rows of its memory are replaced at the next reset"
        return True, ""
    errors = library.try_(
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    if errors:
        return False, f"{errors} uncorrected errors of its memory since the driver was loaded"
    return True, ""


def _address(handle: Any) -> int | None:
    """Handles are pointers to what the driver keeps of a device."""
    import ctypes

    return ctypes.cast(handle, ctypes.c_void_p).value if handle else None

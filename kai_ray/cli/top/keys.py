"""Names of keys from what a terminal sends."""

from __future__ import annotations

import codecs

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "esc",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "pgup",
    "\x1b[6~": "pgdn",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b[Z": "backtab",
}


class Keys:
    """Bytes in, names out; what is cut off in the middle waits for the rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def waiting(self) -> bool:
        """Whether an escape stands there that may be the beginning of more."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        found: list[str] = []
        while text:
            size = _length(text)
            if size == 0:  # to be gone on with
                self._rest = text
                break
            sequence, text = text[:size], text[size:]
            name = _NAMES.get(sequence, sequence if len(sequence) == 1 else "")
            if name and (name in _NAMES.values() or name.isprintable()):
                found.append(name)
        return found

    def flush(self) -> list[str]:
        """Nothing more has come: an escape was the key of that name."""
        rest, self._rest = self._rest, ""
        return ["esc"] if rest else []


def _length(text: str) -> int:
    """Characters of the first key; 0 if it is not complete."""
    if text[0] != "\x1b":
        return 1
    if len(text) == 1:
        return 0
    if text[1] == "O":
        return 3 if len(text) > 2 else 0
    if text[1] != "[":
        return 1
    for i, char in enumerate(text[2:], 3):
        if "@" <= char <= "~":
            return i
    return 0

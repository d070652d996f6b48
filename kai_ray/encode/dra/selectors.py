"""CEL selectors of devices: compiled once; `sees` tells which devices they cannot tell apart.

An expression is not trusted: it is bounded in length, it sees one device, and an error in it means
that the device does not match. What the engine does not know is said in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kai_ray.cluster.celfunctions import FUNCTIONS

from . import attributes
from .slices import Device

if TYPE_CHECKING:
    from cel import Program

#: Longest expression that is read (Kubernetes CELSelectorExpressionMaxLength).
LONGEST = 10 * 1024
_UNKNOWN = re.compile(r"Undefined variable or function: '([\w.]+)'")
_TEXT = re.compile(r"""\[\s*(?:"([^"]*)"|'([^']*)')\s*\]""")
_LOOPS = re.compile(r"\.(?:all|exists|exists_one|map|filter|size)\s*\(|\bsize\s*\(|\bin\s+device")


def _is_version(text: Any) -> bool:
    try:
        attributes.version(text)
    except (ValueError, TypeError):
        return False
    return True


_VERSIONS: dict[str, Callable[..., Any]] = {
    "semver": attributes.version,
    "isSemver": _is_version,
    "compareTo": attributes.compare,
    "isGreaterThan": lambda a, b: attributes.compare(a, b) > 0,
    "isLessThan": lambda a, b: attributes.compare(a, b) < 0,
    "major": lambda v: v[0],
    "minor": lambda v: v[1],
    "patch": lambda v: v[2],
    "includes": lambda values, v: v in values if isinstance(values, list) else values == v,
}
_KNOWN = {**FUNCTIONS, **_VERSIONS}


class Selector:
    """One expression. `fault` says why it cannot be used; "" while it can."""

    def __init__(self, source: str) -> None:
        self.fault = ""
        self._source = source
        self._loops = True
        self._program: Program | None = None
        if len(source) > LONGEST:
            self.fault = f"is longer than {LONGEST} characters"
            return
        import cel  # not at the top: the engine loads slowly, and most clusters have no devices

        try:
            program = cel.compile(source)
            binds = "cel" in program.variables()
            called = {name: _KNOWN[name] for name in program.functions() if name in _KNOWN}
        except Exception as error:
            self.fault = f"is no CEL that is understood here ({' '.join(str(error).split())[:200]})"
            return
        self._program, self._functions = program, called
        self._loops = bool(_LOOPS.search(source))
        self._domains = {a or b for a, b in _TEXT.findall(source)}
        if binds:
            self.fault = "uses cel.bind, which is not known here: write the value where it is used"

    def matches(self, device: Device) -> bool:
        """Whether the device suits; what fails on it does not."""
        if self.fault or self._program is None:
            return False
        return self._run(self._program, device)

    def sees(self, names: Iterable[attributes.Name]) -> tuple[attributes.Name, ...]:
        """Those of the names that the expression may look at."""
        return tuple(n for n in names if self._loops or n[1] in self._source)

    def _run(self, program: Program, device: Device) -> bool:
        import cel

        scope = {
            "device": {
                "driver": device.id.driver,
                "attributes": self._by_domain(device.attributes),
                "capacity": self._by_domain(device.capacity),
                "allowMultipleAllocations": False,
            }
        }
        try:
            return program.execute(cel.Context(scope, self._functions)) is True
        except Exception as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown:
                self.fault = f"uses {unknown[1]}, which is not known here"
            return False

    def _by_domain(self, table: dict[attributes.Name, Any]) -> dict[str, dict[str, Any]]:
        """Attributes by domain; a domain that the expression looks into is never missing."""
        found: dict[str, dict[str, Any]] = {}
        if not self._loops:
            found = {domain: {} for domain in self._domains}
        for (domain, name), value in table.items():
            found.setdefault(domain, {})[name] = value
        return found


class Selectors:
    """All expressions in use, by their text."""

    def __init__(self) -> None:
        self._known: dict[str, Selector] = {}

    def of(self, source: str) -> Selector:
        found = self._known.get(source)
        if found is None:
            if len(self._known) >= 4096:
                self._known.clear()
            found = self._known[source] = Selector(source)
        return found

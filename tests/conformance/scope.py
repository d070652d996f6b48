"""Which recorded cases the project answers for. The others are skipped, with the reason."""

from __future__ import annotations

from tests.conformance.verdict import Case

#: What a scheduler case may not contain yet, as exact features or as prefixes.
_FEATURES: set[str] = set()
_PREFIXES = ()


def why_not(case: Case) -> str | None:
    """The feature of a scheduler case that is out of scope, or None."""
    for feature in case.get("features", ()):
        if feature in _FEATURES or feature.startswith(_PREFIXES):
            return f"needs {feature}"
    return None

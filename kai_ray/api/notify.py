"""Who is told of what: annotations of Queues, which the queues below inherit, and of workloads.

An annotation names channels, which the operator has configured, or addresses. Whether an address
may be used is not seen here, only its form: that depends on what the operator allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as names
from kai_ray.api.durations import parse_duration

#: What can be told of a job.
KINDS = ("started", "waiting", "evicted", "idle", "failed", "ended")
#: As a target: nobody, also not whom a queue above names.
NOBODY = "none"
#: A wait is told after so many seconds where nothing else is stated.
AFTER_S = 1800.0

CHANNEL = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?")
URL = re.compile(r"https?://[A-Za-z0-9\[][!-~]*")
_MOST = 64
_SHORTEST_S = 1.0


class NotifyError(ValueError):
    """An annotation that cannot be used: `field` and `mend`."""

    def __init__(self, field: str, mend: str) -> None:
        super().__init__(f"{field}: {mend}")
        self.field = field
        self.mend = mend


@dataclass(frozen=True, slots=True)
class Notify:
    """None = not stated: as the queue above says, and in the end nobody, all kinds, 30 minutes."""

    targets: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    after_s: float | None = None

    def below(self, above: Notify) -> Notify:
        """What holds where `self` is stated below `above`."""
        return Notify(
            above.targets if self.targets is None else self.targets,
            above.kinds if self.kinds is None else self.kinds,
            above.after_s if self.after_s is None else self.after_s,
        )

    def wants(self, kind: str) -> bool:
        """A failure is also an end."""
        if not self.targets:
            return False
        wanted = KINDS if self.kinds is None else self.kinds
        return kind in wanted or (kind == "failed" and "ended" in wanted)

    @property
    def patience_s(self) -> float:
        return AFTER_S if self.after_s is None else self.after_s


SILENT = Notify()


def read(annotations: Mapping[str, Any]) -> Notify:
    """Raises NotifyError for the first annotation that cannot be used."""
    return Notify(
        _read(annotations, names.NOTIFY, _targets),
        _read(annotations, names.NOTIFY_ON, _kinds),
        _read(annotations, names.NOTIFY_AFTER, _after),
    )


def lenient(annotations: Mapping[str, Any]) -> Notify:
    """What of it can be used: a typing error in one annotation does not silence the others."""
    if not any(key in annotations for key in _READERS):
        return SILENT
    found: dict[str, Any] = {}
    for key, (field, reader) in _READERS.items():
        try:
            found[field] = _read(annotations, key, reader)
        except NotifyError:
            continue
    return Notify(**found)


def problems(annotations: Mapping[str, Any]) -> Iterator[NotifyError]:
    """All that is wrong."""
    for key, (_, reader) in _READERS.items():
        try:
            _read(annotations, key, reader)
        except NotifyError as error:
            yield error


def _read(annotations: Mapping[str, Any], key: str, reader: Any) -> Any:
    raw = annotations.get(key)
    return None if raw is None else reader(raw, f"metadata.annotations[{key}]")


def _parts(raw: Any, field: str, what: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(p.strip() for p in raw.split(","))) if isinstance(raw, str) else ()
    if not all(parts) or not parts:
        raise NotifyError(field, f"names nothing: write {what}, separated by commas")
    if len(parts) > _MOST:
        raise NotifyError(field, f"{len(parts)} entries: at most {_MOST} are allowed")
    return parts


def _targets(raw: Any, field: str) -> tuple[str, ...]:
    parts = _parts(raw, field, "channels or addresses (https://...)")
    for part in parts:
        if not (URL if "://" in part else CHANNEL).fullmatch(part):
            shown = part if "://" not in part else "the address"  # its path may be a secret
            raise NotifyError(
                field, f"{shown[:80]!r} is neither a channel's name nor an address (https://...)"
            )
    return tuple(part for part in parts if part != NOBODY)


def _kinds(raw: Any, field: str) -> tuple[str, ...]:
    parts = _parts(raw, field, f"some of {', '.join(KINDS)}")
    for part in parts:
        if part not in KINDS:
            raise NotifyError(field, f"{part[:80]!r} is not one of {', '.join(KINDS)}")
    return parts


def _after(raw: Any, field: str) -> float:
    found = parse_duration(raw) if isinstance(raw, str) else None
    if found is None or found < 0:
        raise NotifyError(field, f"{str(raw)[:80]!r} is not a duration of 0s or more, such as 30m")
    return max(found, _SHORTEST_S)


_READERS: dict[str, tuple[str, Any]] = {
    names.NOTIFY: ("targets", _targets),
    names.NOTIFY_ON: ("kinds", _kinds),
    names.NOTIFY_AFTER: ("after_s", _after),
}

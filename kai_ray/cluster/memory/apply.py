"""Server-side apply: who owns which field, conflicts, and what an applier no longer wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kai_ray.cluster.port import BadRequest, Conflict, Object

from .copying import clone
from .fieldsets import Fields, Path, from_wire, leaves, shown, to_wire, without
from .shapes import Shape

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_LONGEST_MANAGER = 128
_NONE: Fields = frozenset()


@dataclass(frozen=True, slots=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    subresource: str
    api_version: str
    time: str
    fields: Fields

    @property
    def id(self) -> tuple[str, str, str]:
        return self.name, self.operation, self.subresource

    def to_wire(self) -> Object:
        entry: Object = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_wire(self.fields),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def managers_of(obj: Object) -> list[Manager]:
    return [
        Manager(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("subresource", ""),
            entry.get("apiVersion", ""),
            entry.get("time", ""),
            from_wire(entry.get("fieldsV1") or {}),
        )
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def with_managers(obj: Object, managers: list[Manager]) -> Object:
    meta = dict(obj["metadata"])
    meta["managedFields"] = [m.to_wire() for m in managers if m.fields]
    if not meta["managedFields"]:
        del meta["managedFields"]
    return {**obj, "metadata": meta}


def check_manager(name: str) -> None:
    if not name:
        raise BadRequest("fieldManager is required for apply patch: name who applies")
    if len(name) > _LONGEST_MANAGER or not name.isprintable():
        raise BadRequest(f"fieldManager: at most {_LONGEST_MANAGER} printable characters")


def created_by(config: Object, shape: Shape, name: str, subresource: str, now: str) -> Object:
    """The object of an apply that found nothing, with its owner."""
    owner = Manager(
        name, "Apply", subresource, config["apiVersion"], now, frozenset(leaves(config, shape))
    )
    return with_managers(config, [owner])


def merged(
    live: Object,
    config: Object,
    shape: Shape,
    name: str,
    subresource: str,
    now: str,
    *,
    force: bool,
) -> Object:
    """`live` after applying `config`. Raises Conflict for fields that others set otherwise."""
    had = leaves(live, shape)
    wants = leaves(config, shape)
    managers = managers_of(live) or [
        Manager("before-first-apply", "Update", "", live["apiVersion"], now, frozenset(had))
    ]
    mine = next((m for m in managers if m.id == (name, "Apply", subresource)), None)
    others = [m for m in managers if m is not mine]
    changes = {p for p, v in wants.items() if v is not None and (p not in had or had[p] != v)}
    others = _settle(others, changes, _surely_mine(live, shape, name), force=force)
    result, fields = live, frozenset(wants)
    for path in sorted((mine.fields if mine else _NONE) - fields):
        if not _holds(fields, path) and not any(_holds(m.fields, path) for m in others):
            result = without(result, path, shape)
    result = _overlay(result, config, shape)
    if mine is not None and mine.fields == fields:
        now = mine.time
    owner = Manager(name, "Apply", subresource, config["apiVersion"], now, fields)
    if name == _KUBECTL and LAST_APPLIED in (live["metadata"].get("annotations") or {}):
        result = _with_last_applied(result, config)
    # In its old place: applying the same again must change nothing.
    place = managers.index(mine) if mine else len(others)
    return with_managers(result, [*others[:place], owner, *others[place:]])


def _surely_mine(live: Object, shape: Shape, name: str) -> Fields:
    """What kubectl's client-side apply set counts as kubectl's when it changes to this one."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if name != _KUBECTL or not text:
        return _NONE
    try:
        return frozenset(leaves(msgspec.json.decode(text, type=dict[str, Any]), shape))
    except msgspec.MsgspecError:
        return _NONE


def _with_last_applied(obj: Object, config: Object) -> Object:
    meta = dict(obj["metadata"])
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        LAST_APPLIED: msgspec.json.encode(config).decode(),
    }
    return {**obj, "metadata": meta}


def _settle(
    others: list[Manager], changes: set[Path], mine: Fields, *, force: bool
) -> list[Manager]:
    """Others without the fields that are taken from them; raises Conflict unless `force`."""
    causes: list[dict[str, str]] = []
    rest: list[Manager] = []
    for other in others:
        taken = {p for p in other.fields if _touched(p, changes)}
        for path in sorted(taken - mine):
            version = f" with subresource {other.subresource!r}" if other.subresource else ""
            causes.append(
                {
                    "reason": "FieldManagerConflict",
                    "message": f'conflict with "{other.name}"{version} using {other.api_version}',
                    "field": shown(path),
                }
            )
        rest.append(replace(other, fields=other.fields - taken))
    if causes and not force:
        lines = "; ".join(f"{c['message']}: {c['field']}" for c in causes)
        noun = "conflict" if len(causes) == 1 else "conflicts"
        raise Conflict(
            f"Apply failed with {len(causes)} {noun}: {lines}. Force the apply to take the fields "
            "over, or leave them out",
            details={"causes": causes},
        )
    return rest


def _touched(path: Path, changes: set[Path]) -> bool:
    """Whether a change sets this field, or replaces a whole that it is part of."""
    return any(path[:n] in changes for n in range(1, len(path) + 1))


def _holds(fields: Fields, path: Path) -> bool:
    """Whether a manager owns the field or something inside it."""
    return path in fields or any(p[: len(path)] == path for p in fields)


def _overlay(live: Any, config: Any, shape: Shape) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and not shape.atomic:
        out: dict[str, Any] = dict(live)
        for key, value in config.items():
            out[key] = _overlay(out.get(key), value, shape.child(key))
        return out
    if isinstance(config, list) and isinstance(live, list):
        if shape.list_type == "set":
            return [*live, *(v for v in config if v not in live)]
        if shape.list_type == "map":
            return _overlay_items(live, config, shape)
    return clone(config)


def _overlay_items(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    wanted = {shape.identity(item): item for item in config}
    out: list[Any] = []
    for item in live:
        want = wanted.pop(shape.identity(item), None)
        out.append(item if want is None else _overlay(item, want, shape.item))
    out.extend(clone(item) for item in config if shape.identity(item) in wanted)
    return out


def after_update(
    old: Object, new: Object, shape: Shape, name: str, subresource: str, now: str
) -> Object:
    """`new` with the ownership that follows from a write that was no apply."""
    before, after = leaves(old, shape), leaves(new, shape)
    changed = {p for p, v in after.items() if p not in before or before[p] != v}
    gone = set(before) - set(after)
    managers = [replace(m, fields=m.fields - changed - gone) for m in managers_of(old)]
    if changed:
        name = name or "unknown"
        found = next((m for m in managers if m.id == (name, "Update", subresource)), None)
        fields = frozenset(changed) | (found.fields if found else _NONE)
        managers = [m for m in managers if m is not found]
        managers.append(Manager(name, "Update", subresource, new["apiVersion"], now, fields))
    return with_managers(new, managers)

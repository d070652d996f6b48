"""Structural schemas of CRDs: pruning, defaults, validation.

A `Schema` is compiled once per CRD version. Values are never changed in place: `normalize` returns
the same value where nothing had to be pruned or filled in, so that stored parts can be shared.
"""

from __future__ import annotations

import math
import re
from typing import Any

from kai_ray.api import quantity
from kai_ray.cluster.port import Object

from .celrules import Rule, compile_rule, run_rules
from .copying import clone
from .meta import Cause, cause

#: No object is described by more complaints than this.
MOST_CAUSES = 30
_ROOT = ("apiVersion", "kind", "metadata")
_INT_RANGE = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_MISSING: Any = object()


class Schema:
    """One node of a structural schema."""

    def __init__(self, node: Object, *, root: bool = False, path: str = "") -> None:
        self.type: str = node.get("type", "")
        self.root = root or bool(node.get("x-kubernetes-embedded-resource"))
        self.int_or_string = bool(node.get("x-kubernetes-int-or-string"))
        self.nullable = bool(node.get("nullable"))
        self.preserve = bool(node.get("x-kubernetes-preserve-unknown-fields"))
        properties: dict[str, Object] = node.get("properties") or {}
        self.properties = {
            k: Schema(v, path=f"{path}.{k}")
            for k, v in properties.items()
            if not (self.root and k in _ROOT)
        }
        extra = node.get("additionalProperties")
        self.any_property = extra is True
        self.additional = Schema(extra, path=f"{path}.*") if isinstance(extra, dict) else None
        items = node.get("items")
        self.items = Schema(items, path=f"{path}[]") if isinstance(items, dict) else None
        self.required: list[str] = node.get("required") or []
        self.enum: list[Any] | None = node.get("enum")
        self.pattern = re.compile(node["pattern"]) if node.get("pattern") else None
        self.default: Any = node.get("default", _MISSING)
        self.bounds = {k: node[k] for k in _BOUNDS if k in node}
        self.format: str = node.get("format", "")
        self.list_type: str = node.get("x-kubernetes-list-type", "")
        self.list_keys: list[str] = node.get("x-kubernetes-list-map-keys") or []
        self.map_type: str = node.get("x-kubernetes-map-type", "")
        self.all_of = [Schema(s, path=path) for s in node.get("allOf") or ()]
        self.any_of = [Schema(s, path=path) for s in node.get("anyOf") or ()]
        self.one_of = [Schema(s, path=path) for s in node.get("oneOf") or ()]
        self.none_of = Schema(node["not"], path=path) if isinstance(node.get("not"), dict) else None
        self.rules: list[Rule] = [
            compile_rule(rule, path) for rule in node.get("x-kubernetes-validations") or ()
        ]

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING

    # --- pruning and defaults ----------------------------------------------------------------

    def normalize(self, value: Any) -> Any:
        """The value without unknown fields and with defaults."""
        if isinstance(value, dict):
            return self._normalize_object(value)
        if isinstance(value, list) and self.items is not None:
            items: list[Any] = [self.items.normalize(v) for v in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value

    def _normalize_object(self, value: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        dropped: list[str] = []
        for key, item in value.items():
            sub = self.properties.get(key) or self.additional
            if sub is not None:
                new = sub.normalize(item)
                if new is not item:
                    changed[key] = new
            elif not (
                self.preserve
                or self.any_property
                or (self.root and key in _ROOT)
                or self.int_or_string
            ):
                dropped.append(key)
        for key, sub in self.properties.items():
            if key not in value and sub.default is not _MISSING:
                changed[key] = sub.normalize(clone(sub.default))
        if not changed and not dropped:
            return value
        return {k: v for k, v in {**value, **changed}.items() if k not in dropped}

    def unknown(self, value: Any, path: str = "") -> list[str]:
        """The paths that `normalize` would prune."""
        found: list[str] = []
        if isinstance(value, dict):
            for key, item in value.items():
                where = f"{path}.{key}" if path else str(key)
                sub = self.properties.get(key) or self.additional
                if sub is not None:
                    found += sub.unknown(item, where)
                elif not (self.preserve or self.any_property or (self.root and key in _ROOT)):
                    found.append(where)
        elif isinstance(value, list) and self.items is not None:
            for i, item in enumerate(value):
                found += self.items.unknown(item, f"{path}[{i}]")
        return found

    # --- validation --------------------------------------------------------------------------

    def validate(self, value: Any, path: str, causes: list[Cause], old: Any = None) -> None:
        """Adds what is wrong. A value equal to the old one is taken as it is (ratcheting)."""
        if len(causes) >= MOST_CAUSES or (old is not None and old == value):
            return
        before = len(causes)
        if not self._check_type(value, path, causes):
            return
        if self.enum is not None and value not in self.enum:
            wanted = ", ".join(f'"{v}"' for v in self.enum)
            causes.append(
                cause(
                    path,
                    f"Unsupported value: {value!r}: supported values: {wanted}",
                    "FieldValueNotSupported",
                )
            )
        too_big = self._check_bounds(value, path, causes)
        if isinstance(value, dict):
            self._validate_object(value, path, causes, old)
        elif isinstance(value, list) and not too_big:
            self._validate_list(value, path, causes, old)
        self._validate_combinations(value, path, causes)
        if self.rules and len(causes) == before:
            causes.extend(run_rules(self.rules, value, old, path))

    def _check_type(self, value: Any, path: str, causes: list[Cause]) -> bool:
        if value is None:
            if not self.nullable:
                causes.append(cause(path, "must not be null", "FieldValueTypeInvalid"))
            return False
        if self.int_or_string:
            ok, wanted = isinstance(value, str) or _is_int(value), "an integer or text"
        elif self.type:
            ok, wanted = _TYPES[self.type](value), f"of type {self.type}"
        else:
            return True
        if not ok:
            causes.append(
                cause(
                    path,
                    f"Invalid value: {_short(value)}: must be {wanted}",
                    "FieldValueTypeInvalid",
                )
            )
        return ok

    def _check_bounds(self, value: Any, path: str, causes: list[Cause]) -> bool:
        """Adds broken bounds; True if a list or object is too long to look into."""
        found = len(causes)
        if isinstance(value, str):
            self._check_text(value, path, causes)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(value, path, causes)
        elif isinstance(value, list | dict):
            size = len(value)
            noun = "items" if isinstance(value, list) else "properties"
            most = self.bounds.get(f"max{noun.capitalize()}")
            least = self.bounds.get(f"min{noun.capitalize()}")
            if most is not None and size > most:
                causes.append(
                    cause(
                        path,
                        f"Too many: {size}: must have at most {most} {noun}",
                        "FieldValueTooMany",
                    )
                )
                return True
            if least is not None and size < least:
                causes.append(cause(path, f"Invalid value: must have at least {least} {noun}"))
        return found != len(causes) and not isinstance(value, dict)

    def _check_text(self, value: str, path: str, causes: list[Cause]) -> None:
        most, least = self.bounds.get("maxLength"), self.bounds.get("minLength")
        if most is not None and len(value) > most:
            causes.append(
                cause(
                    path, f"Too long: may not be more than {most} characters", "FieldValueTooLong"
                )
            )
            return
        if least is not None and len(value) < least:
            causes.append(
                cause(path, f"Invalid value: {value!r}: should be at least {least} characters long")
            )
        if self.pattern is not None and not self.pattern.search(value):
            causes.append(
                cause(
                    path, f"Invalid value: {_short(value)}: should match '{self.pattern.pattern}'"
                )
            )
        if self.format == "date-time" and not _DATE_TIME.fullmatch(value):
            causes.append(
                cause(
                    path,
                    f"Invalid value: {_short(value)}: must be a date such as 2026-01-31T12:00:00Z",
                )
            )
        if self.format == "quantity":
            try:
                quantity.parse(value)
            except ValueError as error:
                causes.append(cause(path, f"Invalid value: {error}"))

    def _check_number(self, value: float, path: str, causes: list[Cause]) -> None:
        if not math.isfinite(value):
            causes.append(cause(path, f"Invalid value: {value}: must be a finite number"))
            return
        low, high = self.bounds.get("minimum"), self.bounds.get("maximum")
        if self.format in _INT_RANGE:
            first, last = _INT_RANGE[self.format]
            low, high = (
                max(first, first if low is None else low),
                min(last, last if high is None else high),
            )
        if low is not None and (
            value < low or (value == low and self.bounds.get("exclusiveMinimum"))
        ):
            than = (
                "greater than"
                if self.bounds.get("exclusiveMinimum")
                else "greater than or equal to"
            )
            causes.append(cause(path, f"Invalid value: {value}: should be {than} {low}"))
        if high is not None and (
            value > high or (value == high and self.bounds.get("exclusiveMaximum"))
        ):
            than = "less than" if self.bounds.get("exclusiveMaximum") else "less than or equal to"
            causes.append(cause(path, f"Invalid value: {value}: should be {than} {high}"))
        step = self.bounds.get("multipleOf")
        if step and value % step:
            causes.append(cause(path, f"Invalid value: {value}: should be a multiple of {step}"))

    def _validate_object(
        self, value: dict[str, Any], path: str, causes: list[Cause], old: Any
    ) -> None:
        before: dict[str, Any] = old if isinstance(old, dict) else {}
        causes.extend(
            cause(_join(path, name), "Required value", "FieldValueRequired")
            for name in self.required
            if name not in value
        )
        for key, item in value.items():
            sub = self.properties.get(key) or self.additional
            if sub is not None:
                sub.validate(item, _join(path, key), causes, before.get(key))

    def _validate_list(self, value: list[Any], path: str, causes: list[Cause], old: Any) -> None:
        before: dict[Any, Any] = {}
        if self.list_type in ("map", "set"):
            if isinstance(old, list):
                before = {self._identity(v): v for v in old}
            seen: set[Any] = set()
            for i, item in enumerate(value):
                identity = self._identity(item)
                if identity in seen:
                    causes.append(
                        cause(
                            f"{path}[{i}]",
                            f"Duplicate value: {_short(identity)}",
                            "FieldValueDuplicate",
                        )
                    )
                    if len(causes) >= MOST_CAUSES:
                        return
                seen.add(identity)
        if self.items is not None:
            for i, item in enumerate(value):
                was = before.get(self._identity(item)) if before else None
                self.items.validate(item, f"{path}[{i}]", causes, was)
                if len(causes) >= MOST_CAUSES:
                    return

    def _identity(self, item: Any) -> Any:
        if self.list_type == "map" and isinstance(item, dict):
            return tuple(str(item.get(k)) for k in self.list_keys)
        return repr(item)

    def _validate_combinations(self, value: Any, path: str, causes: list[Cause]) -> None:
        for part in self.all_of:
            part.validate(value, path, causes)
        for parts, wanted in ((self.any_of, "at least one"), (self.one_of, "exactly one")):
            if parts:
                fits = sum(_fits(part, value, path) for part in parts)
                if fits == 0 or (wanted == "exactly one" and fits > 1):
                    causes.append(
                        cause(path, f"Invalid value: must validate {wanted} schema of {len(parts)}")
                    )
        if self.none_of is not None and _fits(self.none_of, value, path):
            causes.append(cause(path, "Invalid value: must not validate the schema (not)"))


_BOUNDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
)


def _is_int(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    )


_TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": _is_int,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}


def _fits(schema: Schema, value: Any, path: str) -> bool:
    found: list[Cause] = []
    schema.validate(value, path, found)
    return not found


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

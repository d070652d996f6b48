"""Checks of single values that many kinds share: numbers, quantities, lists, selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kai_ray.api import quantity

from .meta import Cause, bad_key, cause, check_labels

_LARGEST = 2**63 - 1
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

Json = dict[str, Any]


def required(field: str, mend: str = "Required value") -> Cause:
    return cause(field, mend, "FieldValueRequired")


def unsupported(field: str, value: Any, allowed: tuple[str, ...]) -> Cause:
    wanted = ", ".join(f'"{v}"' for v in allowed)
    return cause(
        field,
        f"Unsupported value: {value!r}: supported values: {wanted}",
        "FieldValueNotSupported",
    )


def wrong_type(field: str, value: Any, wanted: str) -> Cause:
    return cause(
        field, f"Invalid value: {str(value)[:80]!r}: must be {wanted}", "FieldValueTypeInvalid"
    )


def listed(value: Any, field: str, causes: list[Cause]) -> Iterator[tuple[str, Json]]:
    """The objects of a list with their paths; anything else becomes a cause."""
    if value is None:
        return
    if not isinstance(value, list):
        causes.append(wrong_type(field, value, "a list"))
        return
    for i, item in enumerate(value):
        if isinstance(item, dict):
            yield f"{field}[{i}]", item
        else:
            causes.append(wrong_type(f"{field}[{i}]", item, "an object"))


def whole_number(
    value: Any, field: str, causes: list[Cause], low: int = 0, high: int = 2**31 - 1
) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        causes.append(wrong_type(field, value, "an integer"))
    elif not low <= value <= high:
        causes.append(cause(field, f"Invalid value: {value}: must be {low} to {high}"))


def amounts(value: Any, field: str, causes: list[Cause]) -> Json:
    """Checks a resource list; returns the readable part of it as Decimals by name."""
    found: Json = {}
    if value is None:
        return found
    if not isinstance(value, dict):
        causes.append(wrong_type(field, value, "an object of quantities"))
        return found
    for name, text in value.items():
        where = f"{field}[{name}]"
        if why := bad_key(name):
            causes.append(cause(where, f"Invalid value: {why}"))
        try:
            if isinstance(text, bool) or not isinstance(text, str | int | float):
                raise ValueError(f"{text!r} is not a quantity: write a number such as 2 or 500m")
            number = quantity.parse(text)
        except ValueError as error:
            causes.append(cause(where, f"Invalid value: {error}"))
            continue
        if number < 0:
            causes.append(cause(where, f"Invalid value: {text!r}: must be 0 or more"))
        elif number * (1000 if name == "cpu" else 1) > _LARGEST:
            causes.append(cause(where, f"Invalid value: {text!r}: must be less than 2^63"))
        elif is_extended(name) and number != int(number):
            causes.append(cause(where, f"Invalid value: {text!r}: must be an integer"))
        else:
            found[name] = number
    return found


def is_extended(name: str) -> bool:
    return "/" in name and not name.split("/")[0].endswith("kubernetes.io")


def check_requirements(
    value: Any, field: str, causes: list[Cause], operators: tuple[str, ...] = _LABEL_OPERATORS
) -> None:
    """matchExpressions of labels or nodes."""
    for where, term in listed(value, field, causes):
        key, operator, values = term.get("key"), term.get("operator"), term.get("values") or []
        if not isinstance(key, str) or bad_key(key):
            causes.append(cause(f"{where}.key", f"Invalid value: {key!r}: is no label key"))
        if operator not in operators:
            causes.append(unsupported(f"{where}.operator", operator, operators))
        elif operator in ("In", "NotIn") and not values:
            causes.append(
                required(f"{where}.values", "must be specified when operator is In or NotIn")
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            causes.append(cause(f"{where}.values", f"must be empty when operator is {operator}"))
        elif operator in ("Gt", "Lt") and (
            len(values) != 1 or not re.fullmatch(r"-?\d+", str(values[0]))
        ):
            causes.append(cause(f"{where}.values", f"{operator} needs exactly one integer"))


def check_selector(value: Any, field: str, causes: list[Cause]) -> None:
    """A LabelSelector."""
    if value is None:
        return
    if not isinstance(value, dict):
        causes.append(wrong_type(field, value, "a label selector"))
        return
    causes.extend(check_labels(f"{field}.matchLabels", value.get("matchLabels")))
    check_requirements(value.get("matchExpressions"), f"{field}.matchExpressions", causes)

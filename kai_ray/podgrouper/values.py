"""Reading untyped objects without trusting them: every complaint names the field and the mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

#: More pods than this in one workload is a typing error, not a job.
LARGEST_COUNT = 1_000_000


class GroupError(Exception):
    """A workload that cannot be grouped. `reason`: one CamelCase word for conditions and events."""

    def __init__(
        self, field: str, problem: str, mend: str, *, reason: str = "InvalidWorkload"
    ) -> None:
        super().__init__(f"{field}: {problem}; {mend}")
        self.field = field
        self.problem = problem
        self.mend = mend
        self.reason = reason


def dig(obj: Any, path: str) -> Any:
    """The value at a dotted path of keys, None where it is absent or null.

    Raises GroupError if something on the way is not an object.
    """
    here = obj
    walked: list[str] = []
    for key in path.split("."):
        if here is None:
            return None
        if not isinstance(here, Mapping):
            raise GroupError(
                ".".join(walked), f"is {_kind(here)}, not an object", "write it as a map of fields"
            )
        here = here.get(key)
        walked.append(key)
    return here


def mapping(obj: Any, path: str, at: str = "") -> Object:
    """The object at `path`, {} where absent. `at` prefixes the field name in errors."""
    value = dig(obj, path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GroupError(
            _at(at, path), f"is {_kind(value)}, not an object", "write it as a map of fields"
        )
    return value


def sequence(obj: Any, path: str, at: str = "") -> list[Any]:
    """The list at `path`, [] where absent."""
    value = dig(obj, path)
    if value is None:
        return []
    if not isinstance(value, list):
        raise GroupError(_at(at, path), f"is {_kind(value)}, not a list", "write it as a list")
    return value


def text(obj: Any, path: str, at: str = "") -> str:
    """The string at `path`, "" where absent."""
    value = dig(obj, path)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise GroupError(_at(at, path), f"is {_kind(value)}, not text", "put it in quotes")
    return value


def flag(obj: Any, path: str, at: str = "") -> bool:
    """The boolean at `path`, False where absent."""
    value = dig(obj, path)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise GroupError(
            _at(at, path), f"is {_kind(value)}, not true or false", "write true or false"
        )
    return value


def count(obj: Any, path: str, default: int | None, at: str = "", *, cap: int = 0) -> int | None:
    """The whole number ≥ 0 at `path`, `default` where absent. `cap` 0 means LARGEST_COUNT."""
    value = dig(obj, path)
    if value is None:
        return default
    return whole(value, _at(at, path), cap=cap)


def whole(value: Any, field: str, *, cap: int = 0) -> int:
    """A JSON number as a count; 3.0 passes, as JSON does not tell it from 3."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise GroupError(
            field, f"is {_kind(value)}, not a whole number", "write a number, without quotes"
        )
    if value < 0:
        raise GroupError(field, f"is {value}, below 0", "write 0 or more")
    limit = cap or LARGEST_COUNT
    if value > limit:
        raise GroupError(field, f"is {value}, above the limit of {limit}", "write a smaller number")
    return value


def number_in(annotation: str, field: str, *, least: int) -> int:
    """A count written as text in an annotation or label."""
    try:
        value = int(annotation.strip(), 10) if isinstance(annotation, str) else None
    except ValueError:
        value = None
    if value is None:
        raise GroupError(field, f"is {annotation!r}, not a whole number", 'write e.g. "4"')
    if value < least:
        raise GroupError(field, f"is {value}, below {least}", f"write {least} or more")
    if value > LARGEST_COUNT:
        raise GroupError(
            field, f"is {value}, above the limit of {LARGEST_COUNT}", "write a smaller number"
        )
    return value


def metadata(obj: Any) -> Object:
    value = obj.get("metadata") if isinstance(obj, dict) else None
    return value if isinstance(value, dict) else {}


def labels(obj: Any) -> dict[str, str]:
    """Labels that are text; others cannot be matched by anything and are left out."""
    return _strings(metadata(obj).get("labels"))


def annotations_of(obj: Any) -> dict[str, str]:
    return _strings(metadata(obj).get("annotations"))


def name_of(obj: Any) -> str:
    value = metadata(obj).get("name")
    return value if isinstance(value, str) else ""


def uid_of(obj: Any) -> str:
    value = metadata(obj).get("uid")
    return value if isinstance(value, str) else ""


def namespace_of(obj: Any) -> str:
    value = metadata(obj).get("namespace")
    return value if isinstance(value, str) else ""


def owner_references(obj: Any) -> list[Object]:
    """The owner references that are objects."""
    found = metadata(obj).get("ownerReferences")
    return [r for r in found if isinstance(r, dict)] if isinstance(found, list) else []


def kind_of(obj: Any) -> tuple[str, str]:
    """(apiVersion, kind), "" where absent."""
    if not isinstance(obj, dict):
        return "", ""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    return (version if isinstance(version, str) else "", kind if isinstance(kind, str) else "")


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)}


def _at(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix else path


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return repr(value)

"""x-kubernetes-validations: CEL rules of CRDs.

A rule that compares with `oldSelf` runs on updates only. A rule that calls a function which neither
the engine nor `celfunctions` has is left out with one warning: refusing every object would be
worse.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kai_ray.cluster.celfunctions import FUNCTIONS
from kai_ray.cluster.port import Object

from .meta import Cause, cause

if TYPE_CHECKING:
    from cel import Program

log = logging.getLogger(__name__)

_UNKNOWN_CALL = re.compile(r"Undefined variable or function: '(\w+)'")


@dataclass(slots=True)
class Rule:
    """One compiled rule. `usable` turns false when it calls something the engine does not know."""

    source: str
    program: Program
    message: str
    message_program: Program | None
    field_path: str
    reason: str
    transition: bool
    optional_old: bool
    escaped: bool
    functions: dict[str, Callable[..., Any]]
    usable: bool = True


def compile_rule(rule: Object, path: str) -> Rule:
    """Raises ValueError if the rule is no CEL."""
    import cel  # not at the top: the engine loads slowly, and most processes have no rules

    source = rule["rule"]
    expression = rule.get("messageExpression")
    try:
        program = cel.compile(source)
        message_program = cel.compile(expression) if expression else None
    except Exception as error:
        raise ValueError(f"rule {source!r} at {path or '.'} does not compile: {error}") from error
    return Rule(
        source=source,
        program=program,
        message=rule.get("message") or f"failed rule: {source}",
        message_program=message_program,
        field_path=rule.get("fieldPath", ""),
        reason=rule.get("reason", "FieldValueInvalid"),
        transition="oldSelf" in program.variables(),
        optional_old=bool(rule.get("optionalOldSelf")),
        escaped="__" in source,
        functions={n: FUNCTIONS[n] for n in program.functions() if n in FUNCTIONS},
    )


def run_rules(rules: list[Rule], value: Any, old: Any, path: str) -> list[Cause]:
    """The rules that do not hold. `old` None: there is nothing to compare with."""
    causes: list[Cause] = []
    for rule in rules:
        if not rule.usable or (rule.transition and old is None and not rule.optional_old):
            continue
        scope = {"self": _escaped(value) if rule.escaped else value}
        if rule.transition:
            scope["oldSelf"] = _escaped(old) if rule.escaped else old
        try:
            holds = rule.program.execute(_context(rule, scope))
        except Exception as error:
            if unknown := _UNKNOWN_CALL.search(str(error)):
                log.warning("CEL rule %r is not checked: no function %s", rule.source, unknown[1])
                rule.usable = False
                continue
            causes.append(cause(path, f"rule {rule.source!r} failed: {error}"))
            continue
        if holds is not True:
            where = path + rule.field_path if rule.field_path else path
            causes.append(cause(where.strip("."), _message(rule, scope, value), rule.reason))
    return causes


def _context(rule: Rule, scope: dict[str, Any]) -> Any:
    if not rule.functions:
        return scope
    import cel

    return cel.Context(scope, rule.functions)


def _message(rule: Rule, scope: dict[str, Any], value: Any) -> str:
    if rule.message_program is not None:
        try:
            text = rule.message_program.execute(_context(rule, scope))
        except Exception:
            text = None
        if isinstance(text, str) and text.strip():
            return text
    shown = value if isinstance(value, str | int | float) else "object"
    return f"Invalid value: {shown!r}: {rule.message}"


_ESCAPES = {".": "__dot__", "-": "__dash__", "/": "__slash__"}
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return",
    }
)  # fmt: skip


def _escaped(value: Any) -> Any:
    """Property names as rules spell those that are no CEL identifiers."""
    if isinstance(value, dict):
        return {_escape(k): _escaped(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_escaped(v) for v in value]
    return value


def _escape(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    name = name.replace("__", "__underscores__")
    return "".join(_ESCAPES.get(c, c) for c in name)

"""Label and field selectors, in kubectl's text form and in the objects' own form."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .port import BadRequest, Object

Matcher = Callable[[Object], bool]


class Requirement(NamedTuple):
    """`op`: in, notin, exists, absent, gt, lt. An absent key satisfies notin and absent only."""

    key: str
    op: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.op == "in":
            return value is not None and value in self.values
        if self.op == "notin":
            return value is None or value not in self.values
        if self.op == "exists":
            return value is not None
        if self.op == "absent":
            return value is None
        if value is None:
            return False
        (bound,) = self.values
        try:
            return int(value) > int(bound) if self.op == "gt" else int(value) < int(bound)
        except ValueError:
            return False


_TOKEN = re.compile(r"\s*(?:(?P<op>==|!=|[=!,()<>])|(?P<word>[^\s=!,()<>]+))")
_KEY = re.compile(r"^([a-z0-9A-Z][-a-z0-9A-Z.]*/)?[a-z0-9A-Z]([-_.a-z0-9A-Z]*[a-z0-9A-Z])?$")
_VALUE = re.compile(r"^([a-z0-9A-Z]([-_.a-z0-9A-Z]*[a-z0-9A-Z])?)?$")
_OBJECT_OPS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadRequest(f"selector {text!r}: cannot read from {text[at:]!r} on")
        kind = "op" if match["op"] else "word"
        found.append((kind, match[kind]))
        at = match.end()
    return found


class _LabelParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            self.fail("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def fail(self, why: str) -> None:
        raise BadRequest(f"label selector {self.text!r}: {why}")

    def parse(self) -> tuple[Requirement, ...]:
        rules: list[Requirement] = []
        while self.at < len(self.tokens):
            rules.append(self.requirement())
            if self.at < len(self.tokens) and self.take()[1] != ",":
                self.fail("requirements are separated by commas")
        return tuple(rules)

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return Requirement(self.key(), "absent")
        key = self.key()
        op = self.peek()
        if op in ("", ","):
            return Requirement(key, "exists")
        self.take()
        if op in ("in", "notin"):
            return Requirement(key, op, self.values())
        if op in ("=", "=="):
            return Requirement(key, "in", frozenset([self.value()]))
        if op == "!=":
            return Requirement(key, "notin", frozenset([self.value()]))
        if op in ("<", ">"):
            bound = self.value()
            if not re.fullmatch(r"-?\d+", bound):
                self.fail(f"{op} needs an integer, not {bound!r}")
            return Requirement(key, "gt" if op == ">" else "lt", frozenset([bound]))
        self.fail(f"{op!r} is no operator: use =, !=, in, notin, <, >")
        raise AssertionError

    def key(self) -> str:
        kind, word = self.take()
        if kind != "word" or not _KEY.match(word):
            self.fail(f"{word!r} is no label key")
        return word

    def value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        kind, word = self.take()
        if kind != "word" or not _VALUE.match(word) or len(word) > 63:
            self.fail(f"{word!r} is no label value")
        return word

    def values(self) -> frozenset[str]:
        if self.take()[1] != "(":
            self.fail("a list of values starts with (")
        found: set[str] = set()
        while True:
            if self.peek() in (",", ")"):
                found.add("")
            else:
                found.add(self.value())
            end = self.take()[1]
            if end == ")":
                return frozenset(found)
            if end != ",":
                self.fail("values are separated by commas and end with )")


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Reads "a=b,c in (d,e),!f". Raises BadRequest."""
    return _LabelParser(text).parse()


def matches(rules: Collection[Requirement], labels: Mapping[str, str] | None) -> bool:
    have = labels or {}
    return all(rule.holds(have) for rule in rules)


def parse_selector(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    """Reads a LabelSelector object (matchLabels, matchExpressions). Raises BadRequest."""
    if not selector:
        return ()
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    rules = [Requirement(k, "in", frozenset([v])) for k, v in labels.items()]
    for term in selector.get("matchExpressions") or ():
        op = _OBJECT_OPS.get(term.get("operator", ""))
        if op is None:
            raise BadRequest(
                f"matchExpressions operator {term.get('operator')!r}: "
                "use In, NotIn, Exists or DoesNotExist"
            )
        rules.append(Requirement(term.get("key", ""), op, frozenset(term.get("values") or ())))
    return tuple(rules)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a LabelSelector matches. None matches nothing, an empty one everything."""
    return selector is not None and matches(parse_selector(selector), labels)


#: Field labels that lists and watches accept besides metadata.name and metadata.namespace.
FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    ("", "events"): frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    ("", "nodes"): frozenset({"spec.unschedulable"}),
    ("", "secrets"): frozenset({"type"}),
    ("", "namespaces"): frozenset({"status.phase"}),
    ("", "replicationcontrollers"): frozenset({"status.replicas"}),
    ("apps", "replicasets"): frozenset({"status.replicas"}),
    ("batch", "jobs"): frozenset({"status.successful"}),
}
_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})


def field_value(obj: Object, path: str) -> str:
    """The value at a dotted path as text; "" if absent."""
    if path == "source":  # events: the component that reports, in either of its two places
        value: Any = (obj.get("source") or {}).get("component") or obj.get("reportingComponent")
    else:
        value = obj
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value)


@lru_cache(maxsize=1024)
def parse_fields(text: str, allowed: frozenset[str]) -> tuple[tuple[str, bool, str], ...]:
    """Reads "a.b=c,d!=e" as (path, equal, value). BadRequest for a path not in `allowed`."""
    rules: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        match = re.fullmatch(r"\s*([^=!\s]+)\s*(==|!=|=)(.*)", part)
        if match is None:
            raise BadRequest(f"field selector {text!r}: write path=value or path!=value")
        path, op, value = match.groups()
        if path not in allowed and path not in _ALWAYS:
            raise BadRequest(f"field label not supported: {path}")
        rules.append((path, op != "!=", value.strip()))
    return tuple(rules)


def matcher(labels: str, fields: str, allowed: frozenset[str] = frozenset()) -> Matcher | None:
    """A test of both selectors, or None if they select everything. Raises BadRequest."""
    by_label = parse_labels(labels) if labels else ()
    by_field = parse_fields(fields, allowed) if fields else ()
    if not by_label and not by_field:
        return None

    def test(obj: Object) -> bool:
        return matches(by_label, obj["metadata"].get("labels")) and all(
            (field_value(obj, path) == value) is equal for path, equal, value in by_field
        )

    return test

"""Label selectors and node selector terms, by name: read once, compared and sorted as tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .problems import Malformed, text, texts

Labels = Mapping[str, str]

#: `matchFields` on metadata.name is a requirement on a label that no node can carry by itself.
NODE_NAME = "metadata.name (field)"

_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_POD_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class Need(NamedTuple):
    """One requirement on a label."""

    key: str
    op: str
    values: tuple[str, ...] = ()


#: AND of needs.
Needs = tuple[Need, ...]
#: OR of terms.
NodeSelector = tuple[Needs, ...]


def matches(needs: Needs, labels: Labels) -> bool:
    """Whether labels meet every need (Kubernetes label selector)."""
    for key, op, values in needs:
        have = labels.get(key)
        if op == "In":
            if have is None or have not in values:
                return False
        elif op == "NotIn":
            if have is not None and have in values:
                return False
        elif op == "Exists":
            if have is None:
                return False
        elif have is not None:
            return False
    return True


def label_selector(raw: Any, field: str) -> Needs | None:
    """The needs of a LabelSelector; None (no selector) matches nothing, an empty one everything."""
    if raw is None:
        return None
    labels = texts(raw.get("matchLabels"), f"{field}.matchLabels")
    needs = [Need(k, "In", (v,)) for k, v in labels.items()]
    needs += _expressions(raw.get("matchExpressions"), f"{field}.matchExpressions", _POD_OPERATORS)
    return tuple(sorted(needs))


def node_selector_terms(raw: Any, field: str) -> NodeSelector:
    """`nodeSelectorTerms`: a term without requirements matches nothing and is left out."""
    terms: list[Needs] = []
    for i, term in enumerate(raw or ()):
        needs = node_selector_term(term, f"{field}[{i}]")
        if needs:
            terms.append(needs)
    return tuple(sorted(set(terms)))


def node_selector_term(term: Any, field: str) -> Needs:
    needs = _expressions(term.get("matchExpressions"), f"{field}.matchExpressions", _NODE_OPERATORS)
    for i, raw in enumerate(term.get("matchFields") or ()):
        if raw.get("key") != "metadata.name":
            raise Malformed(f"{field}.matchFields[{i}].key", "only metadata.name can be matched")
        found = _expression(raw, f"{field}.matchFields[{i}]", ("In", "NotIn"))
        needs.append(found._replace(key=NODE_NAME))
    return tuple(sorted(needs))


def node_labels(raw: Mapping[str, str]) -> NodeSelector:
    """`nodeSelector`: one term."""
    labels = texts(raw, "spec.nodeSelector")
    return (tuple(sorted(Need(k, "In", (v,)) for k, v in labels.items())),)


def _expressions(raw: Any, field: str, operators: tuple[str, ...]) -> list[Need]:
    return [_expression(e, f"{field}[{i}]", operators) for i, e in enumerate(raw or ())]


def _expression(raw: Any, field: str, operators: tuple[str, ...]) -> Need:
    op = raw.get("operator")
    if op not in operators:
        raise Malformed(f"{field}.operator", f"{op!r} is none of {', '.join(operators)}")
    values = tuple(sorted({text(v, f"{field}.values") for v in raw.get("values") or ()}))
    if op in ("In", "NotIn") and not values:
        raise Malformed(f"{field}.values", f"operator {op} needs at least one value")
    if op in ("Gt", "Lt"):
        if len(values) != 1 or integer(values[0]) is None:
            raise Malformed(f"{field}.values", f"operator {op} needs exactly one integer")
    elif op not in ("In", "NotIn"):
        values = ()
    return Need(text(raw.get("key"), f"{field}.key"), op, values)


def integer(text: str) -> int | None:
    """A label value as an int64, as operators Gt and Lt read it; None when it is none."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -(2**63) < value < 2**63 else None

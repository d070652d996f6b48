"""What makes a pod spec malformed. Serves pods and every pod template of built-in workloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .container_rules import check_container, check_volumes
from .meta import DNS_SUBDOMAIN, Cause, bad_key, cause, check_labels
from .value_rules import (
    Json,
    amounts,
    check_requirements,
    check_selector,
    listed,
    required,
    unsupported,
    whole_number,
    wrong_type,
)

_RESTART = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def check_spec(spec: Any, field: str) -> list[Cause]:
    """What is wrong with a pod spec at `field`."""
    causes: list[Cause] = []
    if not isinstance(spec, dict):
        return [required(field, "a pod spec is required")]
    names: set[str] = set()
    volumes = check_volumes(spec, field, causes)
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers", "at least one container is required"))
    for group in ("initContainers", "containers"):
        for where, container in listed(spec.get(group), f"{field}.{group}", causes):
            check_container(container, where, names, volumes, causes)
    if spec.get("restartPolicy") not in (*_RESTART, None):
        causes.append(unsupported(f"{field}.restartPolicy", spec["restartPolicy"], _RESTART))
    for name, low in (("terminationGracePeriodSeconds", 0), ("activeDeadlineSeconds", 1)):
        whole_number(spec.get(name), f"{field}.{name}", causes, low, 2**31 - 1)
    whole_number(spec.get("priority"), f"{field}.priority", causes, -(2**31))
    amounts(spec.get("overhead"), f"{field}.overhead", causes)
    for name in ("nodeName", "schedulerName", "serviceAccountName", "priorityClassName"):
        text = spec.get(name)
        if text is not None and not isinstance(text, str):
            causes.append(wrong_type(f"{field}.{name}", text, "text"))
        elif text and (len(text) > 253 or not DNS_SUBDOMAIN.fullmatch(text)):
            causes.append(cause(f"{field}.{name}", f"Invalid value: {text[:80]!r}: is no name"))
    causes.extend(check_labels(f"{field}.nodeSelector", spec.get("nodeSelector")))
    for where, toleration in listed(spec.get("tolerations"), f"{field}.tolerations", causes):
        _check_toleration(toleration, where, causes)
    _check_affinity(spec.get("affinity"), f"{field}.affinity", causes)
    _check_spread(spec.get("topologySpreadConstraints"), field, causes)
    for where, gate in listed(spec.get("schedulingGates"), f"{field}.schedulingGates", causes):
        name = gate.get("name")
        if not isinstance(name, str) or bad_key(name):
            causes.append(cause(f"{where}.name", f"Invalid value: {name!r}: is no label key"))
    return causes


def _check_toleration(t: Json, field: str, causes: list[Cause]) -> None:
    operator, effect = t.get("operator") or "Equal", t.get("effect") or ""
    if operator not in ("Exists", "Equal"):
        causes.append(unsupported(f"{field}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        causes.append(unsupported(f"{field}.effect", effect, _EFFECTS))
    if not t.get("key") and operator != "Exists":
        causes.append(cause(f"{field}.operator", "must be Exists when key is empty"))
    if operator == "Exists" and t.get("value"):
        causes.append(cause(f"{field}.value", "must be empty when operator is Exists"))
    if t.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(cause(f"{field}.effect", "must be NoExecute when tolerationSeconds is set"))


def _check_affinity(affinity: Any, field: str, causes: list[Cause]) -> None:
    if affinity is None:
        return
    if not isinstance(affinity, dict):
        causes.append(wrong_type(field, affinity, "an object"))
        return
    needed, wished = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    node: Any = affinity.get("nodeAffinity") or {}
    where = f"{field}.nodeAffinity"
    if isinstance(node.get(needed), dict):
        terms = node[needed].get("nodeSelectorTerms")
        inner = f"{where}.{needed}.nodeSelectorTerms"
        if not terms:
            causes.append(required(inner, "must have at least one node selector term"))
        for at, term in listed(terms, inner, causes):
            _check_node_term(term, at, causes)
    for at, wish in listed(node.get(wished), f"{where}.{wished}", causes):
        _check_weight(wish, at, causes)
        _check_node_term(wish.get("preference") or {}, f"{at}.preference", causes)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods: Any = affinity.get(kind) or {}
        for at, term in listed(pods.get(needed), f"{field}.{kind}.{needed}", causes):
            _check_pod_term(term, at, causes)
        for at, wish in listed(pods.get(wished), f"{field}.{kind}.{wished}", causes):
            _check_weight(wish, at, causes)
            _check_pod_term(wish.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm", causes)


def _check_weight(wish: Json, field: str, causes: list[Cause]) -> None:
    weight = wish.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
        causes.append(cause(f"{field}.weight", f"Invalid value: {weight!r}: must be 1 to 100"))


def _check_node_term(term: Json, field: str, causes: list[Cause]) -> None:
    check_requirements(
        term.get("matchExpressions"), f"{field}.matchExpressions", causes, _NODE_OPERATORS
    )


def _check_pod_term(term: Json, field: str, causes: list[Cause]) -> None:
    if not term.get("topologyKey"):
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    for name in ("labelSelector", "namespaceSelector"):
        check_selector(term.get(name), f"{field}.{name}", causes)


def _check_spread(value: Any, field: str, causes: list[Cause]) -> None:
    for where, rule in listed(value, f"{field}.topologySpreadConstraints", causes):
        whole_number(rule.get("maxSkew", 0), f"{where}.maxSkew", causes, 1)
        if not rule.get("topologyKey"):
            causes.append(required(f"{where}.topologyKey", "can not be empty"))
        if rule.get("whenUnsatisfiable") not in _UNSATISFIABLE:
            causes.append(
                unsupported(
                    f"{where}.whenUnsatisfiable", rule.get("whenUnsatisfiable"), _UNSATISFIABLE
                )
            )
        check_selector(rule.get("labelSelector"), f"{where}.labelSelector", causes)


_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def check_pod_update(old: Json, new: Json) -> Iterator[Cause]:
    """A pod's spec may change only in its images, deadline, grace, tolerations and gates."""
    before, after = _frozen_part(old, old), _frozen_part(new, old)
    if before != after:
        names = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
        yield cause(
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, "
            "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` "
            "(only additions), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            f"was previously negative); found changes in {', '.join(names)}",
            "FieldValueForbidden",
        )
    kept = new.get("tolerations") or []
    if any(t not in kept for t in old.get("tolerations") or []):
        yield cause("spec.tolerations", "existing toleration can not be modified or removed")
    gates = {g.get("name") for g in old.get("schedulingGates") or ()}
    added = {g.get("name") for g in new.get("schedulingGates") or ()} - gates
    if added:
        yield cause(
            "spec.schedulingGates",
            f"only deletion is allowed, but found new scheduling gates {sorted(map(str, added))}",
            "FieldValueForbidden",
        )


def _frozen_part(spec: Json, old: Json) -> Json:
    part = {k: v for k, v in spec.items() if k not in _MUTABLE and k != "schedulingGates"}
    for group in ("initContainers", "containers"):
        if isinstance(part.get(group), list):
            part[group] = [
                {k: v for k, v in c.items() if k not in ("image", "resources", "resizePolicy")}
                for c in part[group]
            ]
    if old.get("schedulingGates"):  # a gated pod may still be narrowed
        part.pop("nodeSelector", None)
        part.pop("affinity", None)
    return {k: v for k, v in part.items() if v not in ({}, [])}

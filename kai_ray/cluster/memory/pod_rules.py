"""What makes a pod spec malformed. Serves pods and every pod template of built-in workloads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kai_ray.api import quantity

from .meta import DNS_LABEL, DNS_SUBDOMAIN, Cause, bad_key, cause, check_labels

_RESTART = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_LARGEST = 2**63 - 1
_ENV = re.compile(r"[^=\x00-\x1f]+")

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
        elif _is_extended(name) and number != int(number):
            causes.append(cause(where, f"Invalid value: {text!r}: must be an integer"))
        else:
            found[name] = number
    return found


def _is_extended(name: str) -> bool:
    return "/" in name and not name.split("/")[0].endswith("kubernetes.io")


def check_spec(spec: Any, field: str) -> list[Cause]:
    """What is wrong with a pod spec at `field`."""
    causes: list[Cause] = []
    if not isinstance(spec, dict):
        return [required(field, "a pod spec is required")]
    names: set[str] = set()
    volumes = _check_volumes(spec, field, causes)
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers", "at least one container is required"))
    for group in ("initContainers", "containers"):
        for where, container in listed(spec.get(group), f"{field}.{group}", causes):
            _check_container(container, where, names, volumes, causes)
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
        elif text and not DNS_SUBDOMAIN.fullmatch(text):
            causes.append(cause(f"{field}.{name}", f"Invalid value: {text!r}: is no name"))
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


def _check_unique(name: Any, field: str, seen: set[str], causes: list[Cause]) -> None:
    if not name:
        causes.append(required(field))
    elif not isinstance(name, str):
        causes.append(wrong_type(field, name, "text"))
    elif not DNS_LABEL.fullmatch(name) or len(name) > 63:
        causes.append(
            cause(
                field,
                f"Invalid value: {name[:80]!r}: use at most 63 lower-case letters, digits and '-', "
                "beginning and ending with a letter or digit",
            )
        )
    elif name in seen:
        causes.append(cause(field, f"Duplicate value: {name!r}", "FieldValueDuplicate"))
    else:
        seen.add(name)


def _check_volumes(spec: Json, field: str, causes: list[Cause]) -> set[str]:
    names: set[str] = set()
    for where, volume in listed(spec.get("volumes"), f"{field}.volumes", causes):
        _check_unique(volume.get("name"), f"{where}.name", names, causes)
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and not claim.get("claimName"):
            causes.append(required(f"{where}.persistentVolumeClaim.claimName"))
    return names


def _check_container(
    c: Json, field: str, names: set[str], volumes: set[str], causes: list[Cause]
) -> None:
    _check_unique(c.get("name"), f"{field}.name", names, causes)
    image = c.get("image")
    if not isinstance(image, str) or not image.strip():
        causes.append(required(f"{field}.image", "an image is required"))
    for where, port in listed(c.get("ports"), f"{field}.ports", causes):
        if "containerPort" not in port:
            causes.append(required(f"{where}.containerPort"))
        whole_number(port.get("containerPort"), f"{where}.containerPort", causes, 1, 65535)
        whole_number(port.get("hostPort"), f"{where}.hostPort", causes, 0, 65535)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            causes.append(unsupported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    for where, env in listed(c.get("env"), f"{field}.env", causes):
        name, value = env.get("name"), env.get("value")
        if not isinstance(name, str) or not _ENV.fullmatch(name):
            causes.append(required(f"{where}.name", "a name without '=' is required"))
        if value is not None and not isinstance(value, str):
            causes.append(wrong_type(f"{where}.value", value, "text: quote it"))
    for where, mount in listed(c.get("volumeMounts"), f"{field}.volumeMounts", causes):
        if not mount.get("mountPath"):
            causes.append(required(f"{where}.mountPath"))
        if mount.get("name") not in volumes:
            causes.append(
                cause(
                    f"{where}.name",
                    f"Not found: {mount.get('name')!r}: add a volume of this name",
                    "FieldValueNotFound",
                )
            )
    for name in ("command", "args"):
        words = c.get(name)
        if words is not None and not (
            isinstance(words, list) and all(isinstance(w, str) for w in words)
        ):
            causes.append(wrong_type(f"{field}.{name}", words, "a list of text: quote each"))
    _check_resources(c.get("resources"), f"{field}.resources", causes)


def _check_resources(resources: Any, field: str, causes: list[Cause]) -> None:
    if resources is None:
        return
    if not isinstance(resources, dict):
        causes.append(wrong_type(field, resources, "an object with requests and limits"))
        return
    limits = amounts(resources.get("limits"), f"{field}.limits", causes)
    requests = amounts(resources.get("requests"), f"{field}.requests", causes)
    for name, wanted in requests.items():
        limit = limits.get(name)
        if limit is None:
            continue
        where = f"{field}.requests[{name}]"
        if wanted > limit:
            shown = resources["requests"][name]
            causes.append(
                cause(
                    where,
                    f"Invalid value: {shown!r}: must be less than or equal to {name} limit of "
                    f"{resources['limits'][name]}",
                )
            )
        elif _is_extended(name) and wanted != limit:
            causes.append(cause(where, f"must be equal to {name} limit"))


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

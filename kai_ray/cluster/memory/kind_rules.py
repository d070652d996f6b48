"""What makes the other built-in kinds malformed."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.selectors import selects

from . import crds, device_rules
from .meta import Cause, bad_key, cause, check_labels
from .pod_rules import check_pod_update, check_spec
from .value_rules import (
    amounts,
    check_selector,
    listed,
    required,
    unsupported,
    whole_number,
    wrong_type,
)

Json = dict[str, Any]
Rule = Callable[[Object, Object | None], Iterator[Cause]]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HIGHEST_USER_PRIORITY = 1_000_000_000
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def check(resource: Resource, new: Object, old: Object | None) -> Iterator[Cause]:
    """What is wrong with the body of a built-in object."""
    rule = _RULES.get(resource)
    if rule is not None:
        yield from rule(new, old)


def _spec(obj: Object, causes: list[Cause]) -> Json:
    spec = obj.get("spec", {})
    if isinstance(spec, dict):
        return spec
    causes.append(wrong_type("spec", spec, "an object"))
    return {}


def _pod(new: Object, old: Object | None) -> Iterator[Cause]:
    if old is not None and old.get("spec") == new.get("spec"):
        return
    yield from check_spec(new.get("spec"), "spec")
    if old is not None and isinstance(new.get("spec"), dict):
        yield from check_pod_update(old["spec"], new["spec"])


def _check_template(spec: Json, restart: tuple[str, ...], causes: list[Cause]) -> None:
    template = spec.get("template")
    if not isinstance(template, dict):
        causes.append(required("spec.template", "a pod template is required"))
        return
    meta = template.get("metadata") or {}
    causes.extend(check_labels("spec.template.metadata.labels", meta.get("labels")))
    causes.extend(check_spec(template.get("spec"), "spec.template.spec"))
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy not in restart and policy in ("Always", "OnFailure", "Never"):
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, restart))


def _workload(new: Object, old: Object | None) -> Iterator[Cause]:
    if old is not None and old.get("spec") == new.get("spec"):
        return
    causes: list[Cause] = []
    spec = _spec(new, causes)
    whole_number(spec.get("replicas"), "spec.replicas", causes)
    _check_template(spec, ("Always",), causes)
    if new["kind"] != "ReplicationController":
        _check_owned_selector(spec, causes)
        if old is not None and old["spec"].get("selector") != spec.get("selector"):
            causes.append(_immutable("spec.selector"))
    yield from causes


def _check_owned_selector(spec: Json, causes: list[Cause]) -> None:
    selector = spec.get("selector")
    if not selector or not isinstance(selector, dict):
        causes.append(required("spec.selector", "a selector of the template's labels is required"))
        return
    before = len(causes)
    check_selector(selector, "spec.selector", causes)
    template = spec.get("template")
    labels = (template.get("metadata") or {}).get("labels") if isinstance(template, dict) else None
    if len(causes) == before and not selects(selector, labels):
        causes.append(
            cause(
                "spec.template.metadata.labels",
                f"Invalid value: {labels!r}: `selector` does not match template `labels`",
            )
        )


def _immutable(field: str) -> Cause:
    return cause(field, "field is immutable: create another object", "FieldValueInvalid")


def _job(new: Object, old: Object | None) -> Iterator[Cause]:
    if old is not None and old.get("spec") == new.get("spec"):
        return
    causes: list[Cause] = []
    spec = _spec(new, causes)
    _check_job_spec(spec, causes)
    if old is not None:
        was = old["spec"]
        frozen = ["selector", "completionMode"]
        if not was.get("suspend"):
            frozen.append("template")
        if spec.get("completionMode") != "Indexed":
            frozen.append("completions")
        causes += [_immutable(f"spec.{k}") for k in frozen if was.get(k) != spec.get(k)]
    yield from causes


def _check_job_spec(spec: Json, causes: list[Cause]) -> None:
    for name in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"):
        whole_number(spec.get(name), f"spec.{name}", causes)
    whole_number(spec.get("activeDeadlineSeconds"), "spec.activeDeadlineSeconds", causes, 1)
    mode = spec.get("completionMode")
    if mode not in ("Indexed", "NonIndexed", None):
        causes.append(unsupported("spec.completionMode", mode, ("Indexed", "NonIndexed")))
    if mode == "Indexed" and spec.get("completions") is None:
        causes.append(required("spec.completions", "required when completionMode is Indexed"))
    _check_template(spec, ("Never", "OnFailure"), causes)


def _cron_job(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    schedule = spec.get("schedule")
    if not isinstance(schedule, str) or not schedule.strip():
        causes.append(required("spec.schedule", 'a schedule such as "0 * * * *" is required'))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        causes.append(cause("spec.schedule", f"Invalid value: {schedule!r}: needs five fields"))
    if spec.get("concurrencyPolicy") not in ("Allow", "Forbid", "Replace", None):
        causes.append(
            unsupported(
                "spec.concurrencyPolicy", spec["concurrencyPolicy"], ("Allow", "Forbid", "Replace")
            )
        )
    template = spec.get("jobTemplate")
    inner: list[Cause] = []
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        _check_job_spec(template["spec"], inner)
    else:
        causes.append(required("spec.jobTemplate.spec"))
    for found in inner:
        found["field"] = "spec.jobTemplate." + found["field"]
    yield from (*causes, *inner)


def _node(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec, status = _spec(new, causes), new.get("status") or {}
    seen: set[tuple[Any, Any]] = set()
    for where, taint in listed(spec.get("taints"), "spec.taints", causes):
        key, effect = taint.get("key"), taint.get("effect")
        if not isinstance(key, str) or bad_key(key):
            causes.append(cause(f"{where}.key", f"Invalid value: {key!r}: is no label key"))
        if effect not in _EFFECTS:
            causes.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            causes.append(cause(where, "Duplicate key and effect", "FieldValueDuplicate"))
        seen.add((key, effect))
    for name in ("capacity", "allocatable"):
        amounts(status.get(name), f"status.{name}", causes)
    yield from causes


def _priority_class(new: Object, old: Object | None) -> Iterator[Cause]:
    value = new.get("value")
    if isinstance(value, bool) or not isinstance(value, int):
        yield required("value", "an integer is required")
        return
    if value > _HIGHEST_USER_PRIORITY and not new["metadata"]["name"].startswith("system-"):
        yield cause("value", f"maximum allowed value of a user class is {_HIGHEST_USER_PRIORITY}")
    if value < -(2**31):
        yield cause("value", "must fit 32 bits")
    policy = new.get("preemptionPolicy")
    if policy not in ("Never", "PreemptLowerPriority"):
        yield unsupported("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))
    if old is not None and old["value"] != value:
        yield _immutable("value")


def _claim(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least one access mode is required"))
    resources = spec.get("resources")
    requests = resources.get("requests") if isinstance(resources, dict) else None
    found = amounts(requests, "spec.resources.requests", causes)
    if "storage" not in (requests or {}):
        causes.append(required("spec.resources.requests[storage]"))
    elif found.get("storage") == 0:
        causes.append(cause("spec.resources.requests[storage]", "must be greater than zero"))
    yield from causes


def _volume(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least one access mode is required"))
    if "storage" not in amounts(spec.get("capacity"), "spec.capacity", causes) and not causes:
        causes.append(required("spec.capacity[storage]"))
    yield from causes


def _data(new: Object, old: Object | None) -> Iterator[Cause]:
    secret = new["kind"] == "Secret"
    for part in ("data", "binaryData"):
        values = new.get(part)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield wrong_type(part, values, "an object of text")
            continue
        for key, value in values.items():
            where = f"{part}[{key}]"
            if not _DATA_KEY.fullmatch(key):
                yield cause(where, "a key has at most 253 letters, digits, '-', '_' or '.'")
            if not isinstance(value, str):
                yield wrong_type(where, value, "text: quote it")
            elif (secret or part == "binaryData") and not _is_base64(value):
                yield cause(where, "must be base64: use stringData for plain text")
    if old is not None and old.get("immutable") and old.get("data") != new.get("data"):
        yield cause("data", "field is immutable when `immutable` is set", "FieldValueForbidden")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.splitlines()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _service(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    for where, port in listed(spec.get("ports"), "spec.ports", causes):
        if "port" not in port:
            causes.append(required(f"{where}.port"))
        whole_number(port.get("port"), f"{where}.port", causes, 1, 65535)
    causes.extend(check_labels("spec.selector", spec.get("selector")))
    yield from causes


def _budget(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        causes.append(
            cause("spec", "minAvailable and maxUnavailable exclude each other: remove one")
        )
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        ok = value is None or (
            isinstance(value, int) and not isinstance(value, bool) and value >= 0
        )
        if not ok and not (isinstance(value, str) and re.fullmatch(r"\d{1,3}%", value)):
            causes.append(cause(f"spec.{name}", f"Invalid value: {value!r}: use 1 or 50%"))
    check_selector(spec.get("selector"), "spec.selector", causes)
    yield from causes


def _event(new: Object, old: Object | None) -> Iterator[Cause]:
    about = new.get("involvedObject")
    if not isinstance(about, dict):
        yield required("involvedObject")
        return
    namespace = about.get("namespace")
    if namespace and namespace != new["metadata"]["namespace"]:
        yield cause("involvedObject.namespace", "does not match event.namespace")


def _storage_class(new: Object, old: Object | None) -> Iterator[Cause]:
    if not new.get("provisioner"):
        yield required("provisioner")
    mode = new.get("volumeBindingMode")
    if mode not in ("Immediate", "WaitForFirstConsumer"):
        yield unsupported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))


def _lease(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = _spec(new, causes)
    whole_number(spec.get("leaseDurationSeconds"), "spec.leaseDurationSeconds", causes, 1)
    whole_number(spec.get("leaseTransitions"), "spec.leaseTransitions", causes, 0)
    yield from causes


def _crd(new: Object, old: Object | None) -> Iterator[Cause]:
    if old is None or old.get("spec") != new.get("spec"):
        yield from crds.check(new)
    if old is not None and isinstance(new.get("spec"), dict):
        for name in ("group", "scope"):
            if old["spec"].get(name) != new["spec"].get(name):
                yield _immutable(f"spec.{name}")


_RULES: dict[Resource, Rule] = {
    r.POD: _pod,
    r.DEPLOYMENT: _workload,
    r.REPLICA_SET: _workload,
    r.STATEFUL_SET: _workload,
    r.DAEMON_SET: _workload,
    r.REPLICATION_CONTROLLER: _workload,
    r.JOB: _job,
    r.CRON_JOB: _cron_job,
    r.NODE: _node,
    r.PRIORITY_CLASS: _priority_class,
    r.PVC: _claim,
    r.PV: _volume,
    r.CONFIG_MAP: _data,
    r.SECRET: _data,
    r.SERVICE: _service,
    r.PDB: _budget,
    r.EVENT: _event,
    r.STORAGE_CLASS: _storage_class,
    r.LEASE: _lease,
    r.CRD: _crd,
    r.RESOURCE_CLAIM: device_rules.claim,
    r.RESOURCE_CLAIM_TEMPLATE: device_rules.template,
    r.RESOURCE_SLICE: device_rules.slice_,
}

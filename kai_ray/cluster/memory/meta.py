"""Metadata: names, what the server sets, what an update may not touch."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from typing import Any

from kai_ray.cluster.port import BadRequest, Conflict, Invalid, NotFound, Object

from .kinds import Served

LONGEST_NAME = 253
LONGEST_LABEL = 63
_LONGEST_WORDS = 400
LARGEST_ANNOTATIONS_BYTES = 256 * 1024
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PATH_SEGMENT = re.compile(r"[^/%]+")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_LABEL_NAMED = {"namespaces"}
_SERVICE_NAMED = {"services"}
_RBAC = "rbac.authorization.k8s.io"

Cause = dict[str, str]


def cause(field: str, message: str, reason: str = "FieldValueInvalid") -> Cause:
    return {"reason": reason, "message": _short(message), "field": _short(field)}


def _short(text: str) -> str:
    """Refusals quote what they refuse, but not a megabyte of it."""
    return text if len(text) <= _LONGEST_WORDS else f"{text[: _LONGEST_WORDS - 3]}..."


def invalid(served: Served, name: str, causes: list[Cause]) -> Invalid:
    """The refusal of a whole object, naming each field and its mend."""
    name = _short(name)
    words = [f"{c['field']}: {c['message']}" for c in causes]
    joined = words[0] if len(words) == 1 else "[" + ", ".join(words) + "]"
    res = served.resource
    group = f".{res.group}" if res.group else ""
    return Invalid(
        f"{res.kind}{group} {name!r} is invalid: {joined}",
        details={"name": name, "group": res.group, "kind": res.kind, "causes": causes},
    )


def not_found(served: Served, name: str) -> NotFound:
    res = served.resource
    kind = f"{res.plural}.{res.group}" if res.group else res.plural
    return NotFound(
        f'{kind} "{name}" not found',
        details={"name": name, "group": res.group, "kind": res.plural},
    )


class Namer:
    """UIDs and name suffixes; a seed makes them repeatable.

    `version` is where the store continues: a restart must not repeat the names of its last life.
    """

    def __init__(self, seed: int | None, version: int) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(f"{seed}:{version}")

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def name(self, base: str) -> str:
        return base[:58] + "".join(self._random.choices(_SUFFIX_LETTERS, k=5))


def check_type(served: Served, obj: Object) -> None:
    """Sets apiVersion and kind where absent; refuses others than the resource's."""
    res = served.resource
    if obj.setdefault("apiVersion", res.api_version) != res.api_version:
        raise BadRequest(
            f"apiVersion {obj['apiVersion']!r} does not match {res.plural}: use {res.api_version!r}"
        )
    if obj.setdefault("kind", res.kind) != res.kind:
        raise BadRequest(f"kind {obj['kind']!r} does not match {res.plural}: use {res.kind!r}")
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise BadRequest("metadata must be an object")


def for_create(served: Served, obj: Object, namer: Namer, now: str) -> None:
    """Fills the metadata of a new object, whose types are checked, in place."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    if served.resource.namespaced:
        if not meta.get("namespace"):
            meta["namespace"] = "default"
    elif meta.get("namespace"):
        raise BadRequest(f"{served.resource.plural} are not namespaced: remove metadata.namespace")
    if not meta.get("name"):
        if not isinstance(base := meta.get("generateName"), str) or not base:
            raise invalid(
                served,
                "",
                [cause("metadata.name", "name or generateName is required", "FieldValueRequired")],
            )
        meta["name"] = namer.name(base)
    for key in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        meta.pop(key, None)
    meta["uid"] = namer.uid()
    meta["creationTimestamp"] = now
    meta.pop("resourceVersion", None)
    meta.pop("generation", None)
    if served.generation:
        meta["generation"] = 1
    _drop_empty(meta)


def _drop_empty(meta: Object) -> None:
    """As a real API server, which keeps no empty map or list in metadata of any kind."""
    for key in _LEFT_OUT_EMPTY:
        if key in meta and meta[key] in ({}, [], None):
            del meta[key]


_LEFT_OUT_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
)


def for_update(served: Served, old: Object, new: Object) -> None:
    """Checks preconditions and restores what the server owns. `new` and its metadata are ours."""
    check_type(served, new)
    meta, was = new["metadata"], old["metadata"]
    for key in ("name", "namespace"):
        if meta.setdefault(key, was.get(key, "")) != was.get(key, ""):
            raise BadRequest(
                f"metadata.{key} {meta[key]!r} does not match {was.get(key)!r}: it is immutable"
            )
        if not meta[key]:
            del meta[key]
    version = meta.get("resourceVersion", "")
    if not version and not served.builtin:
        mend = "must be specified for an update: send the version that was read, or patch"
        raise invalid(served, was["name"], [cause("metadata.resourceVersion", mend)])
    check_preconditions(served, old, meta.get("uid", ""), version)
    meta.pop("selfLink", None)
    for key in _SERVER_OWNED:
        if key in was:
            meta[key] = was[key]
        else:
            meta.pop(key, None)
    meta["resourceVersion"] = was["resourceVersion"]
    _drop_empty(meta)


def check_preconditions(served: Served, old: Object, uid: str, version: str) -> None:
    """Raises Conflict unless the stored object has this UID and version ("" matches any)."""
    was = old["metadata"]
    what = f"{served.resource.plural} {was['name']!r}"
    if uid and uid != was["uid"]:
        raise Conflict(
            f"Operation cannot be fulfilled on {what}: Precondition failed: "
            f"UID in precondition: {uid}, UID in object meta: {was['uid']}",
            details={"name": was["name"], "kind": served.resource.plural},
        )
    if version and version != "0" and version != was["resourceVersion"]:
        raise Conflict(
            f"Operation cannot be fulfilled on {what}: the object has been modified; "
            "please apply your changes to the latest version and try again",
            details={"name": was["name"], "kind": served.resource.plural},
        )


def check(served: Served, obj: Object, old: Object | None) -> Iterator[Cause]:
    """What is wrong with the metadata."""
    meta = obj["metadata"]
    yield from _check_name(served, meta)
    yield from check_labels("metadata.labels", meta.get("labels"))
    yield from _check_annotations(meta.get("annotations"))
    yield from _check_owners(meta.get("ownerReferences"))
    finalizers = meta.get("finalizers")
    if finalizers is not None:
        if not _is_texts(finalizers):
            yield cause("metadata.finalizers", "must be a list of names")
        elif old is not None and old["metadata"].get("deletionTimestamp"):
            added = sorted(set(finalizers) - set(old["metadata"].get("finalizers") or ()))
            if added:
                yield cause(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers {added}",
                    "FieldValueForbidden",
                )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and v for v in value)


def _check_name(served: Served, meta: Object) -> Iterator[Cause]:
    name, plural = meta["name"], served.resource.plural
    if not isinstance(name, str):
        yield cause("metadata.name", "must be text", "FieldValueTypeInvalid")
        return
    namespace = meta.get("namespace", "")
    if namespace and (len(namespace) > LONGEST_LABEL or not DNS_LABEL.fullmatch(namespace)):
        yield cause(
            "metadata.namespace",
            f"Invalid value: {namespace[:80]!r}: use at most 63 lower-case letters, digits and '-'",
        )
    if len(name) > LONGEST_NAME:
        yield cause("metadata.name", f"must be no more than {LONGEST_NAME} characters")
    elif served.resource.group == _RBAC:
        if not _PATH_SEGMENT.fullmatch(name) or name in (".", ".."):
            yield cause("metadata.name", f"Invalid value: {name!r}: may not contain '/' or '%'")
    elif plural in _LABEL_NAMED or plural in _SERVICE_NAMED:
        form = DNS_LABEL if plural in _LABEL_NAMED else _DNS_1035
        if len(name) > LONGEST_LABEL or not form.fullmatch(name):
            yield cause(
                "metadata.name",
                f"Invalid value: {name!r}: use lower-case letters, digits and '-', 63 at most, "
                "beginning and ending with a letter or digit (a service begins with a letter)",
            )
    elif not DNS_SUBDOMAIN.fullmatch(name):
        yield cause(
            "metadata.name",
            f"Invalid value: {name!r}: a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character",
        )


def bad_key(key: str) -> str | None:
    """Why `key` is no label or annotation key, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > LONGEST_NAME or not DNS_SUBDOMAIN.fullmatch(prefix)):
        return f"the prefix of {key[:80]!r} must be a DNS subdomain"
    if len(name) > LONGEST_LABEL or not _QUALIFIED.fullmatch(name):
        return f"the name part of {key[:80]!r} must be 1 to 63 letters, digits, '-', '_' or '.'"
    return None


def check_labels(field: str, labels: Any) -> Iterator[Cause]:
    if labels is None:
        return
    if not isinstance(labels, dict):
        yield cause(field, "must be an object of text", "FieldValueTypeInvalid")
        return
    for key, value in labels.items():
        if why := bad_key(key):
            yield cause(field, f"Invalid value: {why}")
        if not isinstance(value, str):
            yield cause(
                f"{field}.{key}",
                f"Invalid value: {value!r}: must be text: quote it",
                "FieldValueTypeInvalid",
            )
        elif len(value) > LONGEST_LABEL or not _LABEL_VALUE.fullmatch(value):
            yield cause(
                field,
                f"Invalid value: {value[:80]!r}: a label value has at most 63 letters, digits, "
                "'-', '_' or '.', and begins and ends with a letter or digit",
            )


def _check_annotations(annotations: Any) -> Iterator[Cause]:
    if annotations is None:
        return
    field = "metadata.annotations"
    if not isinstance(annotations, dict):
        yield cause(field, "must be an object of text", "FieldValueTypeInvalid")
        return
    size = 0
    for key, value in annotations.items():
        if why := bad_key(key.lower()):
            yield cause(field, f"Invalid value: {why}")
        if not isinstance(value, str):
            yield cause(
                f"{field}.{key}",
                f"Invalid value: {value!r}: must be text: quote it",
                "FieldValueTypeInvalid",
            )
        else:
            size += len(key) + len(value)
    if size > LARGEST_ANNOTATIONS_BYTES:
        yield cause(
            field, f"must have at most {LARGEST_ANNOTATIONS_BYTES} bytes", "FieldValueTooLong"
        )


def _check_owners(owners: Any) -> Iterator[Cause]:
    if owners is None:
        return
    field = "metadata.ownerReferences"
    if not isinstance(owners, list):
        yield cause(field, "must be a list", "FieldValueTypeInvalid")
        return
    controllers = 0
    for i, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not isinstance(owner.get(key), str) or not owner[key]:
                yield cause(f"{field}[{i}].{key}", f"{key} must not be empty", "FieldValueRequired")
        controllers += bool(isinstance(owner, dict) and owner.get("controller"))
    if controllers > 1:
        yield cause(field, "Only one reference can have Controller set to true")

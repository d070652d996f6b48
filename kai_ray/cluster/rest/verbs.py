"""The verbs on collections and objects."""

from __future__ import annotations

from typing import Any, Literal, cast

from starlette.responses import Response

from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import (
    BadRequest,
    Invalid,
    NotFound,
    Object,
    PatchType,
)
from kai_ray.cluster.resources import NAMESPACE

from .answers import Form, MethodNotAllowed, UnsupportedMediaType, form_of, json_answer, success
from .call import Call, Target
from .openapi.document import APPLY, JSON_PATCH, MERGE, STRATEGIC, Documents
from .strict import check_fields
from .tables import META_V1, Include, partial, table
from .watching import WatchAnswer, open_watch

_PATCHES: dict[str, PatchType] = {
    JSON_PATCH: "json",
    MERGE: "merge",
    STRATEGIC: "strategic",
    APPLY: "apply",
}
_PROPAGATIONS = ("Background", "Foreground", "Orphan")


def answer(
    store: MemoryStore, documents: Documents, call: Call, target: Target
) -> Response | WatchAnswer:
    """The answer to a verb on a collection, an object or its status."""
    if call.method in ("GET", "HEAD"):
        if call.flag("watch"):
            return open_watch(store, call, target, form_of(call.headers.get("accept", "")))
        return _get(store, call, target) if target.name else _list(store, call, target)
    if target.name:
        if call.method == "PUT":
            return _update(store, documents, call, target)
        if call.method == "PATCH":
            return _patch(store, documents, call, target)
        if call.method == "DELETE" and not target.subresource:
            return _delete(store, call, target)
    elif call.method == "POST" and (target.namespace is not None or not _is_namespaced(target)):
        return _create(store, documents, call, target)
    elif call.method == "DELETE" and target.resource != NAMESPACE:
        return _delete_collection(store, call, target)
    raise MethodNotAllowed("the server does not allow this method on the requested resource")


def one(store: MemoryStore, call: Call, target: Target, obj: Object, code: int = 200) -> Response:
    """One object in the form that the client takes."""
    form = form_of(call.headers.get("accept", ""))
    shown: Any = obj
    if form.kind == "table":
        about = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        shown = _table(store, call, target, [obj], form, about)
    elif form.kind == "metadata":
        shown = partial(obj)
    return json_answer(shown, code, warnings=call.warnings)


def _is_namespaced(target: Target) -> bool:
    return target.resource.namespaced


def _get(store: MemoryStore, call: Call, target: Target) -> Response:
    if target.subresource == "status" and not target.served.status:
        raise NotFound("the server could not find the requested resource")
    obj = store.get(target.resource, target.name, target.namespace or "")
    return one(store, call, target, obj)


def _list(store: MemoryStore, call: Call, target: Target) -> Response:
    form = form_of(call.headers.get("accept", ""))
    page = store.list(
        target.resource,
        target.namespace,
        labels=call.query.get("labelSelector", ""),
        fields=call.query.get("fieldSelector", ""),
        limit=max(0, call.number("limit")),
        continue_token=call.query.get("continue", ""),
    )
    about: Object = {"resourceVersion": page.resource_version}
    if page.continue_token:
        about["continue"] = page.continue_token
    if form.kind == "table":
        return json_answer(_table(store, call, target, page.items, form, about))
    if form.kind == "metadata":
        return json_answer(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": META_V1,
                "metadata": about,
                "items": [partial(item) for item in page.items],
            }
        )
    return json_answer(
        {
            "kind": target.served.list_kind or f"{target.resource.kind}List",
            "apiVersion": target.resource.api_version,
            "metadata": about,
            "items": page.items,
        }
    )


def _table(
    store: MemoryStore, call: Call, target: Target, items: list[Object], form: Form, about: Object
) -> Object:
    include = call.query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(f"includeObject {include!r}: use None, Metadata or Object")
    return table(
        target.served,
        items,
        store.clock.now(),
        include=cast(Include, include),
        metadata=about,
        version=form.version,
    )


def _create(store: MemoryStore, documents: Documents, call: Call, target: Target) -> Response:
    obj = _own_object(call, target)
    check_fields(documents, call, target.served, obj)
    made = store.create(target.resource, obj, dry_run=call.dry_run, field_manager=call.manager)
    return one(store, call, target, made, 201)


def _update(store: MemoryStore, documents: Documents, call: Call, target: Target) -> Response:
    obj = _own_object(call, target)
    name = obj["metadata"].setdefault("name", target.name)
    if name != target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    check_fields(documents, call, target.served, obj)
    made = store.update(
        target.resource,
        obj,
        subresource=target.subresource,
        dry_run=call.dry_run,
        field_manager=call.manager,
    )
    return one(store, call, target, made)


def _patch(store: MemoryStore, documents: Documents, call: Call, target: Target) -> Response:
    patch_type = _PATCHES.get(call.media_type)
    if patch_type is None or (patch_type == "strategic" and not target.served.builtin):
        known = [m for m, kind in _PATCHES.items() if kind != "strategic" or target.served.builtin]
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(known)
        )
    patch = call.decoded()
    existed = True
    if patch_type == "apply":
        if not call.query.get("fieldManager"):
            raise Invalid("fieldManager: an apply patch needs the name of its manager")
        existed = _exists(store, target)
    elif call.flag("force"):
        raise Invalid("force: only apply patches may be forced")
    if isinstance(patch, dict):
        check_fields(documents, call, target.served, patch)
    made = store.patch(
        target.resource,
        target.name,
        patch,
        target.namespace or "",
        patch_type=patch_type,
        subresource=target.subresource,
        field_manager=call.manager,
        force=call.flag("force"),
        dry_run=call.dry_run,
    )
    return one(store, call, target, made, 200 if existed else 201)


def _exists(store: MemoryStore, target: Target) -> bool:
    try:
        store.get(target.resource, target.name, target.namespace or "")
    except NotFound:
        return False
    return True


def _delete(store: MemoryStore, call: Call, target: Target) -> Response:
    options = _delete_options(call)
    conditions = options.get("preconditions") or {}
    res, namespace = target.resource, target.namespace or ""
    before = store.get(res, target.name, namespace)
    left = store.delete(
        res,
        target.name,
        namespace,
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
        grace_s=options.get("gracePeriodSeconds"),
        propagation=options["propagationPolicy"],
        dry_run=bool(options.get("dryRun")),
    )
    if left is not None:
        return one(store, call, target, left)
    details = {"name": target.name, "group": res.group, "kind": res.plural}
    details["uid"] = before["metadata"].get("uid", "")
    return json_answer(success({key: value for key, value in details.items() if value}))


def _delete_collection(store: MemoryStore, call: Call, target: Target) -> Response:
    options = _delete_options(call)
    store.delete_collection(
        target.resource,
        target.namespace,
        labels=call.query.get("labelSelector", ""),
        fields=call.query.get("fieldSelector", ""),
        grace_s=options.get("gracePeriodSeconds"),
        propagation=options["propagationPolicy"],
        dry_run=bool(options.get("dryRun")),
    )
    res = target.resource
    details = {"group": res.group, "kind": res.plural}
    return json_answer(success({key: value for key, value in details.items() if value}))


def _delete_options(call: Call) -> Object:
    """DeleteOptions of the body, else of the query, checked."""
    given = call.decoded() if call.body else None
    if given is not None and not isinstance(given, dict):
        raise BadRequest("the body of a delete request must be DeleteOptions")
    options: Object = dict(given or {})
    if "gracePeriodSeconds" in call.query:
        options.setdefault("gracePeriodSeconds", call.number("gracePeriodSeconds"))
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest("DeleteOptions.gracePeriodSeconds must be an integer")
    if grace is not None and grace < 0:
        options["gracePeriodSeconds"] = 1
    orphan = options.pop("orphanDependents", None)
    legacy: Literal["Orphan", "Background"] = "Orphan" if orphan else "Background"
    policy = options.get("propagationPolicy") or call.query.get("propagationPolicy") or legacy
    if policy not in _PROPAGATIONS:
        raise Invalid(f"propagationPolicy {policy!r}: use {', '.join(_PROPAGATIONS)}")
    options["propagationPolicy"] = policy
    if call.dry_run:
        options["dryRun"] = ["All"]
    if options.get("dryRun") not in (None, [], ["All"]):
        raise Invalid(f"DeleteOptions.dryRun {options['dryRun']!r}: only [All] is known")
    return options


def _own_object(call: Call, target: Target) -> Object:
    """The body, made to agree with the URL. Raises BadRequest where the two differ."""
    obj, res = call.object(), target.resource
    for field, wanted in (("apiVersion", res.api_version), ("kind", res.kind)):
        given = obj.setdefault(field, wanted)
        if given != wanted:
            raise BadRequest(
                f"{field} of the object ({given}) does not match the one of the URL ({wanted})"
            )
    about = obj.setdefault("metadata", {})
    if not isinstance(about, dict):
        raise BadRequest("metadata must be an object")
    if target.namespace is not None and (about.get("namespace") or None) not in (
        None,
        target.namespace,
    ):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace is not None:
        about["namespace"] = target.namespace
    return obj

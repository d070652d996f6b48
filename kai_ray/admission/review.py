"""AdmissionReview v1: what an API server asks a webhook, and our answer (Kubernetes API).

The plugins are those of the embedded API server. What they edit becomes a JSON patch, what they
refuse a Status with its causes, what they warn of the client's Warning headers.
"""

from __future__ import annotations

import base64
import copy
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Admission, AdmissionRequest, ApiError, Object, Port, Resource

log = logging.getLogger(__name__)

API_VERSION = "admission.k8s.io/v1"
#: An API server cuts warnings that are longer, and leaves out what exceeds 4096 together.
LONGEST_WARNING = 256
_KINDS = {(r.group, r.version, r.plural): r for r in kinds.ALL}
_OPERATIONS = ("CREATE", "UPDATE", "DELETE")


class BadReview(Exception):
    """No AdmissionReview; the text says what is wrong with it."""


def answer(raw: bytes, plugins: Sequence[Admission], reader: Port) -> bytes:
    """The AdmissionReview to send back. Raises BadReview."""
    try:
        review = msgspec.json.decode(raw)
        request = review["request"]
        uid, operation = request["uid"], request["operation"]
        asked = request["resource"]
        triple = (asked.get("group") or "", asked["version"], asked["resource"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadReview(f"not an AdmissionReview: {error!r}") from None
    resource = _KINDS.get(triple)
    response: Object = {"uid": uid, "allowed": True}
    if resource is not None and operation in _OPERATIONS and not request.get("subResource"):
        response |= _decide(request, resource, plugins, reader)
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
    )


def _decide(
    request: Object, resource: Resource, plugins: Sequence[Admission], reader: Port
) -> Object:
    old = request.get("oldObject")
    obj = old if request["operation"] == "DELETE" else request.get("object")
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise BadReview("request.object has no metadata")
    if resource.namespaced and request.get("namespace"):
        obj["metadata"].setdefault("namespace", request["namespace"])
    before = copy.deepcopy(obj)
    warnings: list[str] = []
    try:
        for plugin in plugins:
            only = getattr(plugin, "resources", None)
            if only is not None and resource not in only:
                continue
            obj = plugin.admit(
                AdmissionRequest(
                    request["operation"],
                    resource,
                    "",
                    obj,
                    old,
                    (request.get("userInfo") or {}).get("username") or "",
                    bool(request.get("dryRun")),
                    warnings.append,
                ),
                reader,
            )
    except ApiError as error:
        return {"allowed": False, "status": _status(error)} | _warned(warnings)
    patch = json_patch(before, obj)
    response = _warned(warnings)
    if patch and request["operation"] != "DELETE":
        response |= {
            "patchType": "JSONPatch",
            "patch": base64.b64encode(msgspec.json.encode(patch)).decode(),
        }
    return response


def _status(error: ApiError) -> Object:
    return {
        "status": "Failure",
        "code": error.code,
        "reason": error.reason,
        "message": error.message,
        "details": error.details,
    }


def _warned(warnings: list[str]) -> Object:
    return {"warnings": [w[:LONGEST_WARNING] for w in warnings]} if warnings else {}


def json_patch(before: Any, after: Any, path: str = "") -> list[Object]:
    """RFC 6902 operations that lead from one value to the other; lists are replaced as a whole."""
    if before == after:
        return []
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [{"op": "replace", "path": path, "value": after}]
    found: list[Object] = [
        {"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in before if key not in after
    ]
    for key, value in after.items():
        below = f"{path}/{_escaped(key)}"
        if key in before:
            found += json_patch(before[key], value, below)
        else:
            found.append({"op": "add", "path": below, "value": value})
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

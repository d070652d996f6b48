"""binding, eviction, scale, log, token, finalize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import BadRequest, NotFound, Object, PatchType

from .answers import MethodNotAllowed, json_answer, raw_answer, success
from .call import Call, Target
from .printers.pods import pod_status
from .users import TokenTable

#: Gives the log text of a pod's container, or None if it has none.
LogSource = Callable[[Object, str], str | None]

_SCALE_PATCHES: dict[str, PatchType] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "merge",
    "application/apply-patch+yaml": "merge",
}
_SHORTEST_TOKEN_S, _TOKEN_S, _LONGEST_TOKEN_S = 600, 3600, 2**32


def bind(store: MemoryStore, call: Call, target: Target) -> Response:
    """POST pods/NAME/binding, and POST bindings."""
    _only(call, "POST")
    body = call.object()
    about, aim = _part(body, "metadata"), _part(body, "target")
    name = target.name or about.get("name") or ""
    if aim.get("kind") not in (None, "", "Node"):
        raise BadRequest(f"target.kind {aim['kind']!r}: a pod is bound to a Node")
    store.bind(
        target.namespace or "",
        name,
        aim.get("name") or "",
        uid=about.get("uid") or "",
        resource_version=about.get("resourceVersion") or "",
        labels=about.get("labels"),
        annotations=about.get("annotations"),
        dry_run=call.dry_run,
    )
    return json_answer(success({}), 201)


def evict(store: MemoryStore, call: Call, target: Target) -> Response:
    """POST pods/NAME/eviction."""
    _only(call, "POST")
    options = _part(call.object(), "deleteOptions")
    store.evict(
        target.namespace or "",
        target.name,
        uid=_part(options, "preconditions").get("uid") or "",
        grace_s=options.get("gracePeriodSeconds"),
        dry_run=call.dry_run or bool(options.get("dryRun")),
    )
    return json_answer(success({}), 201)


def scale(store: MemoryStore, call: Call, target: Target) -> Response:
    """GET, PUT and PATCH of NAME/scale."""
    if target.served.scale is None:
        raise NotFound("the server could not find the requested resource")
    _only(call, "GET", "PUT", "PATCH")
    namespace = target.namespace or ""
    if call.method == "PUT":
        body = call.object()
        about = body.setdefault("metadata", {})
        about["name"], about["namespace"] = target.name, namespace
        made = store.update(
            target.resource,
            body,
            subresource="scale",
            dry_run=call.dry_run,
            field_manager=call.manager,
        )
    elif call.method == "PATCH":
        made = store.patch(
            target.resource,
            target.name,
            call.decoded(),
            namespace,
            patch_type=_SCALE_PATCHES.get(call.media_type, "merge"),
            subresource="scale",
            field_manager=call.manager,
            dry_run=call.dry_run,
        )
    else:
        made = store.get_scale(target.resource, target.name, namespace)
    return json_answer(made)


def log(store: MemoryStore, source: LogSource | None, call: Call, target: Target) -> Response:
    """GET pods/NAME/log: what the log source has, else a line that says what the pod did."""
    _only(call, "GET")
    pod = store.get(r.POD, target.name, target.namespace or "")
    containers = [c["name"] for c in (pod.get("spec") or {}).get("containers") or ()]
    inits = [c["name"] for c in (pod.get("spec") or {}).get("initContainers") or ()]
    wanted = call.query.get("container", "")
    if not wanted:
        if len(containers) > 1:
            raise BadRequest(
                f"a container name must be specified for pod {target.name}, "
                f"choose one of: {containers}"
            )
        wanted = containers[0] if containers else ""
    if wanted not in containers + inits:
        raise BadRequest(f"container {wanted} is not valid for pod {target.name}")
    if not (pod.get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {target.name} does not have a host assigned: it is not running yet")
    text = source(pod, wanted) if source is not None else None
    if text is None:
        text = _story(pod, wanted)
    tail = call.number("tailLines", -1)
    if tail >= 0:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[len(lines) - tail :] if tail < len(lines) else lines)
    if limit := call.number("limitBytes"):
        text = text.encode()[:limit].decode("utf-8", "ignore")
    return raw_answer(text.encode(), media_type="text/plain")


def _story(pod: Object, container: str) -> str:
    """The log of a simulated container: when it started and how it ended."""
    status = pod.get("status") or {}
    entries = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    state: Any = next((e.get("state") for e in entries if e.get("name") == container), None) or {}
    node = pod["spec"]["nodeName"]
    about = state.get("running") or state.get("terminated") or {}
    lines = [f"{about.get('startedAt', '-')} simulated container {container} on node {node}"]
    if ended := state.get("terminated"):
        lines.append(f"{ended.get('finishedAt', '-')} exit code {ended.get('exitCode', 0)}")
    elif not state.get("running"):
        lines = [f"- simulated container {container} on node {node}: {pod_status(pod)}"]
    return "\n".join(lines) + "\n"


def token(store: MemoryStore, tokens: TokenTable, call: Call, target: Target) -> Response:
    """POST serviceaccounts/NAME/token."""
    _only(call, "POST")
    account = store.get(r.SERVICE_ACCOUNT, target.name, target.namespace or "")
    body = call.object()
    spec = _part(body, "spec")
    seconds = spec.get("expirationSeconds") or _TOKEN_S
    if not isinstance(seconds, int) or not _SHORTEST_TOKEN_S <= seconds <= _LONGEST_TOKEN_S:
        raise BadRequest(
            f"spec.expirationSeconds: between {_SHORTEST_TOKEN_S} and {_LONGEST_TOKEN_S} please"
        )
    issued = tokens.issue(
        target.namespace or "", target.name, account["metadata"].get("uid", ""), seconds
    )
    return json_answer(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": spec | {"expirationSeconds": seconds},
            "status": {
                "token": issued,
                "expirationTimestamp": rfc3339(store.clock.now() + seconds),
            },
        },
        201,
    )


def finalize(store: MemoryStore, call: Call, target: Target) -> Response:
    """PUT namespaces/NAME/finalize: how old clients empty spec.finalizers."""
    _only(call, "PUT")
    body = call.object()
    body.setdefault("metadata", {})["name"] = target.name
    return json_answer(store.update(r.NAMESPACE, body, field_manager=call.manager))


def _only(call: Call, *methods: str) -> None:
    if call.method not in methods:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _part(body: Object, field: str) -> Object:
    value = body.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{field} must be an object")
    return value

"""The ASGI application: authenticates, authorises, finds who answers, turns errors into Status.

Store calls are made right here on the event loop: they take microseconds, and one loop gives every
client the same order of things.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from weakref import WeakSet

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kai_ray.cluster.memory import MemoryStore, acting_as, hearing
from kai_ray.cluster.port import ApiError, BadRequest, Forbidden, NotFound, Unauthorized

from . import discovery, reviews, subresources, verbs, version
from .answers import (
    NotAcceptable,
    add_warnings,
    json_answer,
    raw_answer,
    refusal,
)
from .authorize import Act, allowed
from .call import Call, Target, read_body, target_of
from .openapi import swagger
from .openapi.document import Documents
from .users import ANONYMOUS, TokenTable, User, authenticate, impersonated
from .watching import WatchAnswer

log = logging.getLogger(__name__)

HEADER_LIMIT = 64 * 1024
_OPEN_PATHS = ("healthz", "livez", "readyz", "version")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}

Answer = Response | WatchAnswer


class Face:
    """One store's REST face."""

    def __init__(
        self, store: MemoryStore, tokens: TokenTable, logs: subresources.LogSource | None = None
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._logs = logs
        self._documents = Documents(store.kinds)
        self._watches: WeakSet[WatchAnswer] = WeakSet()

    def end_watches(self) -> None:
        """Ends every open watch in good order; call on the event loop."""
        for watch in list(self._watches):
            watch.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ApiError as error:
            answer = refusal(error)
        except Exception:
            log.exception("%s %s failed", request.method, scope["path"])
            answer = refusal(ApiError("an internal error: see the server's log"))
        if isinstance(answer, WatchAnswer):
            self._watches.add(answer)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Answer:
        path: str = request.scope["path"]
        # h11 looks at its own limit only while a head is incomplete: one that came whole passes.
        if sum(len(name) + len(value) for name, value in request.headers.raw) > HEADER_LIMIT:
            raise BadRequest(f"the headers are longer than {HEADER_LIMIT} bytes")
        user = authenticate(self._tokens, request.headers)
        if user is None:
            if path.strip("/").split("/")[0] not in _OPEN_PATHS:
                raise Unauthorized("Unauthorized")
            user = ANONYMOUS
        groups = request.headers.getlist("impersonate-group")
        call = Call(
            request.method,
            path,
            request.query_params,
            request.headers,
            impersonated(user, request.headers, groups),
            await read_body(request),
        )
        with acting_as(call.user.name), hearing() as heard:
            answer = await self._route(call)
        if heard and isinstance(answer, Response):
            add_warnings(answer, heard)
        return answer

    async def _route(self, call: Call) -> Answer:
        parts = [part for part in call.path.split("/") if part]
        first = parts[0] if parts else ""
        if first == "version":
            return json_answer(version.info())
        if first in _OPEN_PATHS:
            return raw_answer(b"ok", media_type="text/plain")
        about = (first == "api" and len(parts) <= 2) or (first == "apis" and len(parts) <= 3)
        if about or first in ("", "openapi"):
            self._authorize(call.user, Act("get", path=call.path))
            if first == "openapi":
                # The first look at the models takes a second: not on the loop.
                return await asyncio.to_thread(self._openapi, call, parts[1:])
            return self._discover(call, parts)
        if reviews.is_review(call.path):
            self._authorize(call.user, Act("create", parts[1], parts[-1]))
            return reviews.answer(self._store, self._tokens, call)
        if first not in ("api", "apis"):
            raise NotFound("the server could not find the requested resource")
        target = target_of(self._store.kinds, call.path)
        self._authorize(call.user, _act(call, target))
        return self._resource(call, target)

    def _resource(self, call: Call, target: Target) -> Answer:
        store = self._store
        match target.served.group_plural, target.subresource:
            case _, "" | "status":
                return verbs.answer(store, self._documents, call, target)
            case _, "scale":
                return subresources.scale(store, call, target)
            case ("", "pods"), "binding":
                return subresources.bind(store, call, target)
            case ("", "pods"), "eviction":
                return subresources.evict(store, call, target)
            case ("", "pods"), "log":
                return subresources.log(store, self._logs, call, target)
            case ("", "serviceaccounts"), "token":
                return subresources.token(store, self._tokens, call, target)
            case ("", "namespaces"), "finalize":
                return subresources.finalize(store, call, target)
            case ("", "pods"), "exec" | "attach" | "portforward" | "proxy" | "ephemeralcontainers":
                raise NotFound(
                    f"pods/{target.subresource} is not served: simulated pods run no processes"
                )
            case _:
                raise NotFound("the server could not find the requested resource")

    def _discover(self, call: Call, parts: list[str]) -> Response:
        kinds = self._store.kinds
        if not parts:
            groups = [f"/apis/{g['name']}" for g in discovery.group_list(kinds)["groups"]]
            fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3"]
            return json_answer({"paths": [*fixed, "/readyz", "/version", *groups]})
        if len(parts) == 1:
            chosen = _aggregated_version(call.headers.get("accept", ""))
            if chosen:
                found = discovery.aggregated(kinds, core=parts[0] == "api", version=chosen)
                media = (
                    f"application/json;g={discovery.AGGREGATED};v={chosen};as=APIGroupDiscoveryList"
                )
                return raw_answer(json_answer(found).body, media_type=media)  # type: ignore[arg-type]
            if parts[0] == "api":
                return json_answer(discovery.api_versions(call.headers.get("host", "")))
            return json_answer(discovery.group_list(kinds))
        if parts[0] == "api":
            return json_answer(discovery.resource_list(kinds, "", parts[1]))
        if len(parts) == 2:
            return json_answer(discovery.group(kinds, parts[1]))
        return json_answer(discovery.resource_list(kinds, parts[1], parts[2]))

    def _openapi(self, call: Call, parts: list[str]) -> Response:
        if parts == ["v3"]:
            return json_answer(self._documents.index())
        if parts == ["v2"]:
            body, media = swagger.answer(self._documents, call.headers.get("accept", ""))
            return raw_answer(body, media_type=media)
        found = self._documents.document("/".join(parts[1:])) if parts[:1] == ["v3"] else None
        if found is None:
            raise NotFound("the server could not find the requested resource")
        if not _takes_json(call.headers.get("accept", "")):
            raise NotAcceptable("OpenAPI v3 is served as application/json")
        body, digest = found
        if call.headers.get("if-none-match", "").strip('"') == digest:
            return Response(status_code=304)
        response = raw_answer(body)
        response.headers["ETag"] = f'"{digest}"'
        if call.query.get("hash") == digest:
            response.headers["Cache-Control"] = "public, immutable"
        return response

    def _authorize(self, user: User, act: Act) -> None:
        may, _ = allowed(self._store, user, act)
        if may:
            return
        if act.path:
            what = f'cannot {act.verb} path "{act.path}"'
            raise Forbidden(f'forbidden: User "{user.name}" {what}')
        full = f"{act.resource}/{act.subresource}" if act.subresource else act.resource
        where = f'in the namespace "{act.namespace}"' if act.namespace else "at the cluster scope"
        plural = f"{act.resource}.{act.group}" if act.group else act.resource
        named = f' "{act.name}"' if act.name else ""
        raise Forbidden(
            f'{plural}{named} is forbidden: User "{user.name}" cannot {act.verb} resource '
            f'"{full}" in API group "{act.group}" {where}',
            details={"name": act.name, "group": act.group, "kind": act.resource},
        )


def _act(call: Call, target: Target) -> Act:
    if call.method in ("GET", "HEAD"):
        verb = "watch" if call.flag("watch") else "get" if target.name else "list"
    elif call.method == "DELETE":
        verb = "delete" if target.name else "deletecollection"
    else:
        verb = _VERBS.get(call.method, call.method.lower())
    res = target.resource
    namespace = target.namespace or ""
    if target.served.group_plural == ("", "namespaces"):
        namespace = target.name
    return Act(verb, res.group, res.plural, target.subresource, namespace, target.name)


def _aggregated_version(accept: str) -> str:
    """The aggregated discovery version that is taken first, "" if the old form is."""
    for clause in accept.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        given: dict[str, Any] = dict(p.split("=", 1) for p in parameters if "=" in p)
        if media != "application/json":
            continue
        if given.get("as") == "APIGroupDiscoveryList" and given.get("g") == discovery.AGGREGATED:
            if given.get("v") in discovery.AGGREGATED_VERSIONS:
                return str(given["v"])
        elif "as" not in given:
            return ""
    return ""


def _takes_json(accept: str) -> bool:
    return not accept or any(
        clause.split(";")[0].strip() in ("application/json", "application/*", "*/*")
        for clause in accept.split(",")
    )

"""An operator that cannot read a spec says so on the object and goes on with the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from kai_ray.cluster.port import BadRequest, Forbidden, Invalid, Key, Object, Resource
from kai_ray.cluster.runtime import Controller, Runtime

from .world import split_key

log = logging.getLogger(__name__)

#: (resource, key, uid, reason, message): a Warning event on that object.
Warn = Callable[[Resource, Key, str, str, str], None]
#: A refusal by the API server may pass: a namespace, a quota or a class may come.
RETRY_S = 30.0
#: What the templates hold that make jobs or job sets, not pods.
_NO_POD = {"template", "replicatedJobs"}


class Guarded:
    """Wraps the operator of one kind. `refusals` lists what it could not do, newest last."""

    def __init__(self, inner: Controller, resource: Resource, warn: Warn) -> None:
        self.name = inner.name
        self.refusals: list[str] = []
        self._inner = inner
        self._resource = resource
        self._warn = warn

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._inner.setup(runtime)

    def reconcile(self, key: str) -> float | None:
        try:
            return self._inner.reconcile(key)
        except (Invalid, BadRequest, Forbidden) as error:
            self._refuse(key, "FailedCreate", error.message)
            return RETRY_S
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            log.debug("%s %s", self.name, key, exc_info=True)
            self._refuse(key, "InvalidSpec", _words(error, self._object(key)))
            return None

    def _object(self, key: str) -> Object | None:
        namespace, name = split_key(key)
        return self._runtime.informer(self._resource).get(name, namespace)

    def _refuse(self, key: str, reason: str, message: str) -> None:
        namespace, name = split_key(key)
        found = self._object(key)
        uid = found["metadata"]["uid"] if found else ""
        self.refusals.append(f"{self._resource.kind} {key}: {reason}: {message}")
        del self.refusals[:-100]
        self._warn(self._resource, Key(namespace, name), uid, reason, message)


def _words(error: Exception, obj: Object | None) -> str:
    field = next(_without_container(obj.get("spec"), "spec"), "") if obj else ""
    if field:
        return f"{field}: holds no container: a pod needs at least one"
    if isinstance(error, KeyError):
        return f"the spec lacks the field {error.args[0]!r}: add it"
    return f"the spec has a field of a wrong type or value: {error}"


def _without_container(part: Any, path: str) -> Iterator[str]:
    """The pod templates of a spec, at any depth, that have no container: no schema refuses them."""
    if isinstance(part, list):
        for index, item in enumerate(part):
            yield from _without_container(item, f"{path}[{index}]")
    elif isinstance(part, dict):
        template = part.get("template")
        pod = template.get("spec") if isinstance(template, dict) else None
        if isinstance(pod, dict) and not (pod.get("containers") or pod.keys() & _NO_POD):
            yield f"{path}.template.spec.containers"
        for name, value in part.items():
            yield from _without_container(value, f"{path}.{name}")

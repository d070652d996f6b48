"""An operator that cannot read a spec says so on the object and goes on with the others."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kai_ray.cluster.port import BadRequest, Forbidden, Invalid, Key, Resource
from kai_ray.cluster.runtime import Controller, Runtime

from .world import split_key

log = logging.getLogger(__name__)

#: (resource, key, uid, reason, message): a Warning event on that object.
Warn = Callable[[Resource, Key, str, str, str], None]
#: A refusal by the API server may pass: a namespace, a quota or a class may come.
RETRY_S = 30.0


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
            self._refuse(key, "InvalidSpec", _words(error))
            return None

    def _refuse(self, key: str, reason: str, message: str) -> None:
        namespace, name = split_key(key)
        found = self._runtime.informer(self._resource).get(name, namespace)
        uid = found["metadata"]["uid"] if found else ""
        self.refusals.append(f"{self._resource.kind} {key}: {reason}: {message}")
        del self.refusals[:-100]
        self._warn(self._resource, Key(namespace, name), uid, reason, message)


def _words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the spec lacks the field {error.args[0]!r}: add it"
    return f"the spec has a field of a wrong type or value: {error}"

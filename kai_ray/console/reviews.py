"""What an API server says that somebody may do, believed for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kai_ray.cluster.port import ApiError, Forbidden, Object, Port, Resource, Write

TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False
)
SELF_REVIEW = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)
#: What a review said is believed for so long.
BELIEVED_S = 30.0
#: Answers for one viewer that are kept in mind at most.
MOST_ANSWERS = 20_000


class Act(NamedTuple):
    """What somebody wants to do. `namespace` "": in all of them; `name` "": to any."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> Object:
        verb, resource, namespace, name = self
        found: Object = {"verb": verb, "group": resource.group, "resource": resource.plural}
        return found | {k: v for k, v in (("namespace", namespace), ("name", name)) if v}


class Answers:
    """What reviews have said lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Act, tuple[float, bool]] = {}

    def of(self, acts: list[Act], ask: Callable[[list[Act]], list[bool]]) -> dict[Act, bool]:
        now = time.monotonic()
        with self._lock:
            known = {a: e[1] for a in acts if (e := self._known.get(a)) and e[0] > now}
        missing = [act for act in acts if act not in known]
        if missing:
            said = dict(zip(missing, ask(missing), strict=True))
            known |= said
            with self._lock:
                if len(self._known) + len(said) > MOST_ANSWERS:
                    self._known.clear()
                self._known |= {act: (now + BELIEVED_S, yes) for act, yes in said.items()}
        return {act: known[act] for act in acts}


def asked(port: Port, reviews: list[tuple[Resource, Any]]) -> list[bool]:
    """One answer each; what cannot be asked is not allowed. Raises if the console may not ask."""
    writes = [
        Write(port.create, (kind, {"kind": kind.kind, "metadata": {}, "spec": spec}))
        for kind, spec in reviews
    ]
    found: list[bool] = []
    for answer in port.batch(writes):
        if isinstance(answer, Forbidden):
            raise ApiError(f"the console may not ask what its viewers may do: {answer.message}")
        if isinstance(answer, ApiError):
            raise answer
        found.append(bool((answer.get("status") or {}).get("allowed")))
    return found

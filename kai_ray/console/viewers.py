"""Who is looking, and what they may see and change.

On one's own machine a token opens everything that the kubeconfig's user may do. On a cluster the
token is the viewer's own: the API server says whose it is (TokenReview) and what they may do
(SubjectAccessReview). What they change is changed with it, so the API server decides once more.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from kai_ray.cluster import resources as R
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.port import (
    Object,
    Port,
    Resource,
    TooManyRequests,
    Unauthorized,
)
from kai_ray.console import reviews
from kai_ray.console.reviews import ACCESS_REVIEW, SELF_REVIEW, TOKEN_REVIEW, Act, Answers, asked

#: A token longer than this is none.
LONGEST_TOKEN = 16 * 1024
#: Viewers that are kept in mind at most.
MOST_VIEWERS = 1000
#: Whoever may list one of these in a namespace sees its jobs.
JOBS = (R.POD_GROUP, R.POD)


class Viewer(Protocol):
    """One who has signed in. What they may do is asked at most every half minute."""

    name: str

    def namespaces(self, known: Iterable[str]) -> frozenset[str] | None:
        """Those of `known` whose jobs they may see; None: of all that there are."""
        ...

    def may_list(self, resource: Resource) -> bool:
        """Whether they may see the objects of a kind that is in no namespace."""
        ...

    def may_edit(self, queues: Iterable[str]) -> frozenset[str]:
        """Those of the queues that they may change."""
        ...

    def port(self) -> Port:
        """Reads and writes with the viewer's own rights."""
        ...


class Door(Protocol):
    """Lets viewers in. `sign_in` tells people what token is wanted."""

    mode: str
    sign_in: str

    def enter(self, token: str) -> Viewer:
        """Raises Unauthorized."""
        ...

    def close(self) -> None: ...


class LocalDoor:
    """One token, for who runs the console on their own machine."""

    mode = "local"

    def __init__(self, token: str, viewer: Viewer, sign_in: str) -> None:
        self._token = token.encode()
        self._viewer = viewer
        self.sign_in = sign_in

    def enter(self, token: str) -> Viewer:
        if not hmac.compare_digest(self._token, token.encode("utf-8", "replace")):
            raise Unauthorized("that is not the console's token")
        return self._viewer

    def close(self) -> None:
        return


class Owner:
    """Sees what the console itself sees. `ask`: queues are changed only where reviews allow it."""

    def __init__(self, name: str, port: Port, *, ask: bool = False) -> None:
        self.name = name
        self._port = port
        self._ask = ask
        self._answers = Answers()

    def namespaces(self, known: Iterable[str]) -> frozenset[str] | None:
        return None

    def may_list(self, resource: Resource) -> bool:
        return True

    def may_edit(self, queues: Iterable[str]) -> frozenset[str]:
        names = frozenset(queues)
        if not self._ask:
            return names
        return _editable(names, lambda acts: self._answers.of(acts, self._review))

    def _review(self, acts: list[Act]) -> list[bool]:
        return asked(
            self._port, [(SELF_REVIEW, {"resourceAttributes": a.attributes}) for a in acts]
        )

    def port(self) -> Port:
        return self._port


class ClusterDoor:
    """Every viewer with a token of their own. `port` may create token and access reviews."""

    mode = "cluster"
    sign_in = "sign in with a token of yours, for example of `kubectl create token NAME`"

    def __init__(self, port: Port, connection: Connection) -> None:
        self._port = port
        self._connection = connection
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[float, Reviewed]] = {}
        self._refused: dict[bytes, float] = {}

    def enter(self, token: str) -> Viewer:
        if not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise Unauthorized("a token is wanted")
        digest = hashlib.sha256(token.encode()).digest()
        now = time.monotonic()
        with self._lock:
            until, viewer = self._known.get(digest, (0.0, None))
            refused = self._refused.get(digest, 0.0) > now
        if refused:
            viewer = None
        elif until <= now:
            viewer = self._review(token, viewer)
            self._remember(digest, viewer, now)
        if viewer is None:
            raise Unauthorized("the API server does not know that token, or it has expired")
        return viewer

    def _remember(self, digest: bytes, viewer: Reviewed | None, now: float) -> None:
        """Strangers are kept apart: however many come, they push out nobody who is known."""
        with self._lock:
            if viewer is None:
                self._known.pop(digest, None)
                if len(self._refused) >= MOST_VIEWERS:
                    self._refused.clear()
                self._refused[digest] = now + reviews.BELIEVED_S
                return
            if len(self._known) >= MOST_VIEWERS:
                self._forget(now)
            if len(self._known) >= MOST_VIEWERS:
                raise TooManyRequests("too many have signed in: try again in a minute")
            self._known[digest] = (now + reviews.BELIEVED_S, viewer)

    def close(self) -> None:
        """Ends the connections that were opened for viewers."""
        with self._lock:
            self._forget(float("inf"))

    def _forget(self, now: float) -> None:
        """Whoever has not been here for a while."""
        for digest, (until, viewer) in list(self._known.items()):
            if until <= now:
                del self._known[digest]
                viewer.close()

    def _review(self, token: str, before: Reviewed | None) -> Reviewed | None:
        review = {"kind": "TokenReview", "spec": {"token": token}, "metadata": {}}
        status = self._port.create(TOKEN_REVIEW, review).get("status") or {}
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        if before is not None and before.user == user:
            return before  # with what is known of their rights
        return Reviewed(user, self._port, as_viewer(self._connection, token))


def as_viewer(connection: Connection, token: str) -> Connection:
    """The same API server with nobody's credentials but that token."""
    return replace(
        connection,
        client_cert_pem=None,
        client_key_pem=None,
        token=token,
        token_file="",
        username="",
        password="",
        impersonate=(),
        plugin=None,
        exec_user=None,
        reload=None,
    )


class Reviewed:
    """A viewer of a cluster, as the API server knows them."""

    def __init__(self, user: Object, port: Port, connection: Connection) -> None:
        self.user = user
        self.name = str(user.get("username") or "")
        self._reviews = port
        self._connection = connection
        self._answers = Answers()
        self._own: KubePort | None = None
        self._lock = threading.Lock()

    def namespaces(self, known: Iterable[str]) -> frozenset[str] | None:
        if any(self._may([Act("list", resource) for resource in JOBS]).values()):
            return None
        found = self._may([Act("list", kind, name) for name in sorted(set(known)) for kind in JOBS])
        return frozenset(act.namespace for act, yes in found.items() if yes)

    def may_list(self, resource: Resource) -> bool:
        return any(self._may([Act("list", resource)]).values())

    def may_edit(self, queues: Iterable[str]) -> frozenset[str]:
        return _editable(frozenset(queues), self._may)

    def port(self) -> Port:
        with self._lock:
            if self._own is None:
                self._own = KubePort(self._connection, connections=2, attempts=1)
            return self._own

    def close(self) -> None:
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None

    def _may(self, acts: list[Act]) -> dict[Act, bool]:
        return self._answers.of(acts, self._review)

    def _review(self, acts: list[Act]) -> list[bool]:
        about: Object = {"user": self.name, "groups": self.user.get("groups") or []}
        about |= {key: self.user[key] for key in ("uid", "extra") if self.user.get(key)}
        specs = [about | {"resourceAttributes": act.attributes} for act in acts]
        return asked(self._reviews, [(ACCESS_REVIEW, spec) for spec in specs])


def _editable(
    queues: frozenset[str], may: Callable[[list[Act]], dict[Act, bool]]
) -> frozenset[str]:
    """All, where the right has no names; else those that it names."""
    if not queues or any(may([Act("patch", R.QUEUE)]).values()):
        return queues
    each = {Act("patch", R.QUEUE, "", name): name for name in sorted(queues)}
    return frozenset(each[act] for act, yes in may(list(each)).items() if yes)

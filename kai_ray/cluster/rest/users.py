"""Who is calling: bearer tokens, impersonation, tokens of service accounts."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kai_ray.cluster.port import Forbidden, TooManyRequests, Unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ISSUED_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class TokenTable:
    """Fixed tokens, and those issued to service accounts for a time. Safe from any thread."""

    def __init__(self, tokens: Mapping[str, User | str]) -> None:
        for token in tokens:
            if len(token) < 8 or not token.isascii() or any(c.isspace() for c in token):
                raise ValueError("a token needs at least 8 ASCII characters without blanks")
        self._fixed = [
            (token.encode(), _with_authenticated(user)) for token, user in tokens.items()
        ]
        self._issued: dict[bytes, tuple[User, float]] = {}
        self._lock = threading.Lock()

    def user_of(self, token: str) -> User | None:
        """The holder of a token. Fixed tokens are compared in constant time, every one of them."""
        given = token.encode("utf-8", "surrogateescape")
        found: User | None = None
        for known, user in self._fixed:
            if hmac.compare_digest(known, given):
                found = user
        if found is not None:
            return found
        # Issued tokens carry 256 random bits: a look-up by hash tells a guesser nothing.
        with self._lock:
            entry = self._issued.get(given)
        return entry[0] if entry is not None and entry[1] > time.monotonic() else None

    def issue(self, namespace: str, account: str, uid: str, seconds: float) -> str:
        """A new token of a service account. Raises TooManyRequests beyond a sane number."""
        now = time.monotonic()
        group = f"system:serviceaccounts:{namespace}"
        user = User(
            f"system:serviceaccount:{namespace}:{account}",
            ("system:serviceaccounts", group, AUTHENTICATED),
            uid,
        )
        token = "kai-sa-" + secrets.token_urlsafe(32)
        with self._lock:
            if len(self._issued) >= ISSUED_LIMIT:
                self._issued = {t: e for t, e in self._issued.items() if e[1] > now}
            if len(self._issued) >= ISSUED_LIMIT:
                raise TooManyRequests(f"{ISSUED_LIMIT} service account tokens are in use")
            self._issued[token.encode()] = (user, now + seconds)
        return token


def authenticate(table: TokenTable, headers: Mapping[str, str]) -> User | None:
    """The caller, None if it shows no credentials. Raises Unauthorized for wrong ones."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not scheme:
        return None
    user = table.user_of(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise Unauthorized("Unauthorized")
    return user


def impersonated(user: User, headers: Mapping[str, str], groups: list[str]) -> User:
    """The user that the caller asks to act as (`kubectl --as`). Raises Forbidden."""
    name = headers.get("impersonate-user", "")
    if not name:
        if groups:
            raise Forbidden("Impersonate-Group needs Impersonate-User")
        return user
    if not user.is_master:
        raise Forbidden(
            f'users "{name}" is forbidden: User "{user.name}" cannot impersonate resource "users" '
            'in API group "" at the cluster scope'
        )
    return _with_authenticated(User(name, tuple(groups), headers.get("impersonate-uid", "")))


def _with_authenticated(user: User | str) -> User:
    """A bare name stands for an administrator."""
    if isinstance(user, str):
        user = User(user, (MASTERS,))
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid)

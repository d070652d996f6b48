"""One request as the operations see it: who asks, of which cluster, with what words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kai_ray.cluster.port import ApiError, BadRequest, Forbidden, Invalid, NotFound, Port, Resource
from kai_ray.console.cluster import Cluster, View
from kai_ray.console.viewers import Viewer

if TYPE_CHECKING:
    from kai_ray.console.clusters import Clusters

LONGEST_WORDS = 1000
T = TypeVar("T")


class Refused(ApiError):
    """A refusal that names a field of the request, or what would help."""

    code, reason = 422, "Invalid"

    def __init__(self, message: str, *, field: str = "", next: str = "", code: int = 422) -> None:
        super().__init__(message)
        self.field, self.next = field, next
        self.code = code
        self.reason = {400: "BadRequest", 404: "NotFound", 409: "Conflict"}.get(code, self.reason)


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is no JSON; one with a name is for keeping."""

    body: str
    media_type: str = "text/plain; charset=utf-8"
    name: str = ""


@dataclass(frozen=True)
class Ask:
    """A request of somebody who has signed in."""

    clusters: Clusters
    viewer: Viewer
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def cluster(self) -> Cluster:
        """The one that `?context=` names, else the home one. Raises NotFound."""
        return self.clusters.named(self.query.get("context") or "")

    @property
    def view(self) -> View:
        return self.cluster.view()

    @property
    def port(self) -> Port:
        """Reads and writes with the viewer's rights: on other clusters those of the console."""
        return self.viewer.port() if self.cluster.home else self.cluster.port

    # ------------------------------------------------------------------ rights

    def sees(self, view: View) -> frozenset[str] | None:
        """The namespaces whose jobs the viewer may see; None: all."""
        return self.viewer.namespaces(_namespaces(view))

    def must_see(self, namespace: str) -> None:
        """Raises NotFound for a namespace that is hidden: whether it exists is not told."""
        seen = self.viewer.namespaces((namespace,))
        if seen is not None and namespace not in seen:
            raise NotFound(f"there is no such job in namespace {namespace}, or you may not see it")

    def must_list(self, resource: Resource) -> None:
        if not self.viewer.may_list(resource):
            raise Forbidden(f"{self.viewer.name} may not list {resource.plural}")

    # ------------------------------------------------------------------ words

    def words(self, name: str) -> frozenset[str]:
        """A list with commas."""
        text = self.text(name)
        return frozenset(part for part in text.split(",") if part)

    def text(self, name: str) -> str:
        found = self.query.get(name) or ""
        if len(found) > LONGEST_WORDS:
            raise Refused(f"is longer than {LONGEST_WORDS} characters", field=name, code=400)
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.query.get(name) or ""
        if not text:
            return default
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
            raise Refused(f"{text[:40]!r} is not a whole number", field=name, code=400)
        value = int(text)
        if not least <= value <= most:
            raise Refused(f"{value} is not between {least} and {most}", field=name, code=400)
        return value

    def given(self, kind: type[T]) -> T:
        """The body as that type. Raises Refused, naming the field."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `$")
            raise Refused(message, field=at.rstrip("`").lstrip(".")) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from error


def _namespaces(view: View) -> Iterator[str]:
    """Where there are jobs, and where there could be; looked at only where it matters."""
    yield from {row.job.namespace for row in view.jobs.rows()}
    yield from (namespace["metadata"]["name"] for namespace in view.namespaces)


def cause_of(error: Invalid) -> tuple[str, str]:
    """(field, message) of the first cause that an API server names."""
    causes: list[dict[str, Any]] = (error.details or {}).get("causes") or []
    if not causes:
        return "", error.message
    return str(causes[0].get("field") or ""), str(causes[0].get("message") or error.message)

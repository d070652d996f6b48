"""All objects of a resource, page by page."""

from __future__ import annotations

from kai_ray.cluster.port import ApiError, Object, Port, Resource

_PAGE = 500


def listed(port: Port, resource: Resource, unless: type[ApiError]) -> list[Object]:
    """Every object of a resource in all namespaces; where `unless` is raised, those before it."""
    found: list[Object] = []
    token = ""
    while True:
        try:
            page = port.list(resource, limit=_PAGE, continue_token=token)
        except unless:
            return found
        found += page.items
        token = page.continue_token
        if not token:
            return found

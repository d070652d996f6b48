"""Discovery, and the order of versions in it."""

from __future__ import annotations

import itertools

import pytest

from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import NotFound
from kai_ray.cluster.rest import discovery

BEST_FIRST = [
    "v10",
    "v2",
    "v1",
    "v11beta2",
    "v10beta3",
    "v3beta1",
    "v12alpha1",
    "v11alpha2",
    "foo10",
]


@pytest.fixture(scope="module")
def kinds():
    store = MemoryStore()
    install_defaults(store)
    return store.kinds


def test_versions_rank_as_in_kubernetes() -> None:
    for one, other in itertools.pairwise(BEST_FIRST):
        assert discovery.version_rank(one) > discovery.version_rank(other), (one, other)


def test_old_and_aggregated_form_agree(kinds) -> None:
    told: set[tuple[str, str, str]] = set()
    for core in (True, False):
        for group in discovery.aggregated(kinds, core=core, version="v2")["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                for res in version["resources"]:
                    told.add((name, version["version"], res["resource"]))
                    told |= {
                        (name, version["version"], f"{res['resource']}/{sub['subresource']}")
                        for sub in res.get("subresources", [])
                    }
    listed = {
        (name, version["version"], res["name"])
        for name, versions in [
            ("", [{"version": "v1"}]),
            *((g["name"], g["versions"]) for g in discovery.group_list(kinds)["groups"]),
        ]
        for version in versions
        for res in discovery.resource_list(kinds, name, version["version"])["resources"]
    }
    assert told == listed
    assert ("", "v1", "pods/binding") in listed
    assert ("scheduling.run.ai", "v2", "queues/status") in listed


def test_what_is_not_served_is_not_found(kinds) -> None:
    with pytest.raises(NotFound):
        discovery.group(kinds, "nowhere.example")
    with pytest.raises(NotFound):
        discovery.resource_list(kinds, "apps", "v9")

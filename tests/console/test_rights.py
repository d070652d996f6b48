"""On a cluster: everybody sees and changes what their own rights allow, and not a word more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import Object
from kai_ray.cluster.rest import RestServer
from kai_ray.cluster.rest.users import User
from kai_ray.console import reviews, viewers
from kai_ray.console.operations import OPERATIONS
from kai_ray.console.server import ConsoleServer
from kai_ray.manager import consoles, rights

from .conftest import Client, World, world_of

TOKENS: dict[str, User | str] = {
    "administrator": "root",
    "of-the-console": User("console"),
    "of-alice-team-a": User("alice", ("team-a",)),
    "of-bob-of-queues": User("bob"),
    "of-carol-vision": User("carol"),
    "of-dave-no-rights": User("dave"),
}


@dataclass
class Shared:
    world: World
    port: int
    rest: RestServer

    def viewer(self, token: str) -> Client:
        return Client(self.port, token)


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    """Jobs `open` in team-a and `covert` in team-b, both running; `secret` waits in team-b."""
    with world_of() as world:
        world.queue("vision", quota=8)
        world.queue("robots", quota=8)
        world.job("open", "vision", namespace="team-a")
        world.job("covert", "robots", namespace="team-b")
        world.run()
        world.job("secret", "robots", namespace="team-b")
        world.run()
        bind(world)
        with RestServer(world.cluster.store, tokens=TOKENS) as rest:
            port = KubePort(rest.connection("of-the-console"))
            cluster = world.cluster
            console = consoles.shared(
                "there", port, port.connection, lambda: (cluster.composition, cluster.runtime)
            )
            with ConsoleServer(console) as server:
                yield Shared(world, server.port, rest)
            port.close()


def bind(world: World) -> None:
    roles: list[Object] = [
        {"metadata": {"name": "console"}, "rules": rights.console_rules()},
        *rights.queue_roles("kai"),
        {
            "metadata": {"name": "vision-only"},
            "rules": [
                {
                    "apiGroups": ["scheduling.run.ai"],
                    "resources": ["queues"],
                    "resourceNames": ["vision"],
                    "verbs": ["patch"],
                }
            ],
        },
    ]
    for role in roles:
        world.cluster.store.create(R.CLUSTER_ROLE, role)
    for user, role in (
        ("console", "console"),
        ("bob", "kai-queue-editor"),
        ("bob", "view"),
        ("carol", "kai-queue-viewer"),
        ("carol", "vision-only"),
        ("alice", "kai-queue-viewer"),
    ):
        binding = _binding(f"{user}-{role}", role, {"kind": "User", "name": user})
        world.cluster.store.create(R.CLUSTER_ROLE_BINDING, binding)
    team = _binding("team", "view", {"kind": "Group", "name": "team-a"})
    team["metadata"]["namespace"] = "team-a"
    world.cluster.store.create(R.ROLE_BINDING, team)


def _binding(name: str, role: str, subject: Object) -> Object:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def test_who_may_see_a_namespace_sees_its_jobs_alone(shared: Shared) -> None:
    alice = shared.viewer("of-alice-team-a")
    seen = alice.get("/jobs")
    assert [job["name"] for job in seen["jobs"]] == ["open"]
    assert (seen["total"], seen["facets"]["namespace"]) == (1, {"team-a": 1})
    told = alice.get("/session")
    assert (told["user"], told["namespaces"]) == ("alice", ["team-a"])
    assert told["mode"] == "cluster" and not told["mayEditQueues"]


def test_no_answer_holds_a_word_of_what_is_hidden(shared: Shared) -> None:
    """Every address of the API, with every way to name what must not be seen."""
    alice = shared.viewer("of-alice-team-a")
    node = shared.world.get("/nodes")["nodes"]
    names = {"namespace": "team-b", "kind": "Job", "name": "covert"}
    asked = 0
    for operation in OPERATIONS:
        if operation.body is not None:
            continue
        paths = [operation.path.format_map(names)]
        if operation.path == "/nodes/{name}":
            paths = [f"/nodes/{row['name']}" for row in node]
        if operation.path == "/queues/{name}":
            paths = ["/queues/robots", "/queues/vision"]
        for path in paths:
            for query in ("", "?search=covert", "?namespace=team-b"):
                answer = alice.send("GET", f"/api/v1{path}{query}")
                text = answer.body.decode()
                asked += 1
                if answer.status >= 400 and "team-b" in path:
                    assert answer.status == 404, (path, text)
                    continue  # an error repeats the address that was asked for
                for word in ("covert", "secret", "team-b"):
                    assert word not in text, (path, word, text)
    assert asked > 30


def test_squares_of_hidden_jobs_have_a_colour_and_no_name(shared: Shared) -> None:
    alice = shared.viewer("of-alice-team-a")
    seen = alice.get("/nodes")
    cards = [card for node in seen["nodes"] for card in node["cards"]]
    of = {seen["queues"][card[0]]: card[2] for card in cards}
    assert set(of) == {"vision", "robots"}
    assert of["robots"] == -1 and seen["jobs"][of["vision"]] == "team-a/Job/open"
    hidden = {alice.get(f"/nodes/{node['name']}")["hidden"] for node in seen["nodes"]}
    assert hidden == {0, 1}


def test_decisions_count_what_they_hide(shared: Shared) -> None:
    cycles = shared.viewer("of-alice-team-a").get("/decisions")["cycles"]
    assert {p["job"] for c in cycles for p in c["bound"]} == {"open"}
    assert sum(c["hidden"] for c in cycles) == 1


def test_who_has_no_rights_sees_an_empty_house(shared: Shared) -> None:
    dave = shared.viewer("of-dave-no-rights")
    seen = dave.get("/overview")
    assert (seen["gpus"], seen["nodes"], seen["queues"]) == (None, None, [])
    assert seen["jobs"]["total"] == 0
    assert dave.send("GET", "/api/v1/nodes").status == 403
    assert dave.send("GET", "/api/v1/queues/vision").status == 403
    assert dave.get("/queues")["problem"]
    assert dave.write("POST", "/queues/preview", {"changes": [{"name": "vision"}]}).status == 403
    refused = dave.write("PATCH", "/queues/vision", {"priority": 1})
    assert refused.status == 403


def test_queues_are_changed_by_who_may_and_in_their_name(shared: Shared) -> None:
    bob, carol = shared.viewer("of-bob-of-queues"), shared.viewer("of-carol-vision")
    assert bob.get("/session")["mayEditQueues"]
    assert bob.write("PATCH", "/queues/robots", {"priority": 7}).status == 200
    may = {q["name"]: q["mayEdit"] for q in carol.get("/queues")["queues"]}
    assert may["vision"] and not may["robots"]
    assert carol.write("PATCH", "/queues/vision", {"priority": 8}).status == 200
    refused = carol.write("PATCH", "/queues/robots", {"priority": 9})
    assert (refused.status, refused.error["reason"]) == (403, "Forbidden")
    assert "carol" in refused.error["message"], "the API server refused it, and not the console"
    spec = shared.world.cluster.store.get(R.QUEUE, "robots")["spec"]
    assert spec["priority"] == 7


def test_a_token_that_nobody_knows(shared: Shared) -> None:
    for token in ("made-up-token", "ümlaut".encode().decode("latin-1"), "a b", "x" * 17_000):
        answer = shared.viewer(token).send("GET", "/api/v1/overview")
        assert answer.status == 401, token[:20]


def test_strangers_push_nobody_out(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "MOST_VIEWERS", 8)
    for number in range(30):
        assert shared.viewer(f"guess-{number}").send("GET", "/api/v1/jobs").status == 401
    assert shared.viewer("of-alice-team-a").get("/jobs")["total"] == 1


def test_a_listener_whose_token_has_ended_is_not_told_on(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kai_ray.console import live
    from tests.console.test_live import listening

    monkeypatch.setattr(live, "EVERY_S", 0.02)
    monkeypatch.setattr(live, "RIGHTS_S", 0.04)
    monkeypatch.setattr(reviews, "BELIEVED_S", 0.05)
    tokens = shared.rest._face._tokens
    user = User("guest", ("team-a",))
    tokens._issued[b"a-short-token"] = (user, float("inf"))
    world = shared.world
    guest = Client(shared.port, "a-short-token")
    with listening(guest) as stream:
        assert stream.next()[0] == "hello"
        assert guest.get("/jobs")["total"] == 1
        del tokens._issued[b"a-short-token"]
        while stream.response.readline():
            world.run(0)
    assert guest.send("GET", "/api/v1/jobs").status == 401


def test_rights_that_are_taken_away_end_within_half_a_minute(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = shared.viewer("of-bob-of-queues")
    assert bob.get("/jobs")["total"] == 3
    store = shared.world.cluster.store
    binding = store.get(R.CLUSTER_ROLE_BINDING, "bob-view")
    store.delete(R.CLUSTER_ROLE_BINDING, "bob-view")
    try:
        assert bob.get("/jobs")["total"] == 3, "what a review said is believed for a while"
        later = time.monotonic() + reviews.BELIEVED_S + 1
        for module in (viewers, reviews):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: later))
        assert bob.get("/jobs")["total"] == 0
    finally:
        monkeypatch.undo()
        meta = {"name": "bob-view"}
        body = {k: binding[k] for k in ("roleRef", "subjects")} | {"metadata": meta}
        store.create(R.CLUSTER_ROLE_BINDING, body)


def test_a_console_that_may_not_ask_says_so_and_shows_nothing(shared: Shared) -> None:
    store = shared.world.cluster.store
    port = KubePort(shared.rest.connection("of-dave-no-rights"))
    cluster = shared.world.cluster
    console = consoles.shared(
        "x", port, port.connection, lambda: (cluster.composition, cluster.runtime)
    )
    with ConsoleServer(console) as server:
        answer = Client(server.port, "of-bob-of-queues").send("GET", "/api/v1/jobs")
    port.close()
    assert answer.status >= 400 and "open" not in answer.body.decode()
    assert "tokenreviews" in answer.error["message"]
    assert store.list(R.JOB).items
